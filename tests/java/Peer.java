import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * What the programs here have in common: a line on the standard input is a command, a line on the standard output an
 * answer.
 *
 * <pre>
 * command               answer
 *                       ready SESSION_ID               once connected, the id in hexadecimal
 * quit                  bye                            the session is closed
 *                       failed MESSAGE                 instead of any answer
 * </pre>
 *
 * When the standard input ends, so does the process, at once and without closing the session.
 */
final class Peer {
    private static final int CONNECT_SECONDS = 20;

    private static final BlockingQueue<String> COMMANDS = new LinkedBlockingQueue<>();

    static {
        // A thread of its own, because the main one may be waiting for a lock when the driver goes away.
        Thread reader = new Thread(Peer::read, "commands");
        reader.setDaemon(true);
        reader.start();
    }

    private Peer() {
    }

    /** Carries out a command, whose words these are, and says its answer. */
    interface Command {
        void run(String[] words) throws Exception;
    }

    /** A part of a turn, such as to acquire. */
    interface Action {
        void run() throws Exception;
    }

    /** Connects, and is not "ready" yet; ends the process if there is no connection. */
    static CuratorFramework connect(String servers, String sessionTimeoutMillis) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(servers)
            .sessionTimeoutMs(Integer.parseInt(sessionTimeoutMillis))
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(50, 8))
            .build();
        client.start();
        if (!client.blockUntilConnected(CONNECT_SECONDS, TimeUnit.SECONDS)) {
            notConnected(servers);
        }
        return client;
    }

    static void notConnected(String servers) {
        say("failed no connection to " + servers + " within " + CONNECT_SECONDS + " s");
        System.exit(1);
    }

    static int connectSeconds() {
        return CONNECT_SECONDS;
    }

    static void ready(CuratorFramework client) throws Exception {
        ready(client.getZookeeperClient().getZooKeeper().getSessionId());
    }

    static void ready(long session) {
        say("ready " + Long.toHexString(session));
    }

    /** Carries out commands, one after the other and on this thread, until it is told to quit. */
    static void serve(Action close, Map<String, Command> commands) throws Exception {
        while (true) {
            String[] words = COMMANDS.take().trim().split(" +");
            try {
                if (words[0].equals("quit")) {
                    close.run();
                    say("bye");
                    System.exit(0);
                }
                Command command = commands.get(words[0]);
                if (command == null) {
                    say("failed unknown command " + words[0]);
                } else {
                    command.run(words);
                }
            } catch (Exception e) {
                failed(e);
            }
        }
    }

    /** So many times: acquires, says so, holds, releases and says so. */
    static void contend(int times, long holdMillis, Action acquire, Action release) throws Exception {
        for (int i = 0; i < times; i++) {
            acquire.run();
            acquired(true);
            TimeUnit.MILLISECONDS.sleep(holdMillis);
            released(release);
        }
    }

    static void acquired(boolean isHeld) {
        say((isHeld ? "acquired " : "timeout ") + System.nanoTime());
    }

    /** Releases, and says when it was still held. */
    static void released(Action release) throws Exception {
        long before = System.nanoTime();
        release.run();
        say("released " + before);
    }

    static void failed(Exception e) {
        say("failed " + e.toString().replace('\n', ' '));
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void read() {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                COMMANDS.add(line);
            }
        } catch (IOException e) {
            System.err.println("cannot read commands: " + e);
        }
        Runtime.getRuntime().halt(2);
    }
}
