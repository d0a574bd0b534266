import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes a Curator lock when told to, and says when it held it.
 *
 * <pre>
 * Contender CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command               answer
 *                       ready SESSION_ID               once connected, the id in hexadecimal
 * acquire WAIT_MS       acquired NANOS | timeout NANOS
 * release               released NANOS
 * contend N HOLD_MS     N times: acquired NANOS, then released NANOS
 * quit                  bye                            the session is closed
 *                       failed MESSAGE                 instead of any of these
 * </pre>
 *
 * NANOS is System.nanoTime(), for "acquired" once the lock is held and for "released" while it still is: what lies
 * between is time for which the lock was held. When the standard input ends, so does the process, at once and without
 * closing the session.
 */
public final class Contender {
    private static final long CONNECT_SECONDS = 20;

    public static void main(String[] args) throws Exception {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands), "commands");
        reader.setDaemon(true);
        reader.start();

        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[0])
            .sessionTimeoutMs(Integer.parseInt(args[2]))
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(50, 8))
            .build();
        client.start();
        if (!client.blockUntilConnected((int) CONNECT_SECONDS, TimeUnit.SECONDS)) {
            say("failed no connection to " + args[0] + " within " + CONNECT_SECONDS + " s");
            System.exit(1);
        }
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        say("ready " + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));

        while (true) {
            String[] words = commands.take().trim().split(" +");
            try {
                switch (words[0]) {
                    case "acquire":
                        boolean held = mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                        say((held ? "acquired " : "timeout ") + System.nanoTime());
                        break;
                    case "release":
                        say("released " + release(mutex));
                        break;
                    case "contend":
                        contend(mutex, Integer.parseInt(words[1]), Long.parseLong(words[2]));
                        break;
                    case "quit":
                        client.close();
                        say("bye");
                        System.exit(0);
                        break;
                    default:
                        say("failed unknown command " + words[0]);
                }
            } catch (Exception e) {
                say("failed " + e.toString().replace('\n', ' '));
            }
        }
    }

    private static void contend(InterProcessMutex mutex, int times, long holdMillis) throws Exception {
        for (int i = 0; i < times; i++) {
            mutex.acquire();
            say("acquired " + System.nanoTime());
            TimeUnit.MILLISECONDS.sleep(holdMillis);
            say("released " + release(mutex));
        }
    }

    private static long release(InterProcessMutex mutex) throws Exception {
        long before = System.nanoTime();
        mutex.release();
        return before;
    }

    /** A thread of its own, because the main one may be waiting for the lock when the driver goes away. */
    private static void read(BlockingQueue<String> commands) {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException e) {
            System.err.println("cannot read commands: " + e);
        }
        Runtime.getRuntime().halt(2);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
