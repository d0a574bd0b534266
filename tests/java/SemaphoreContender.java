import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes leases of a Curator semaphore when told to, and says when it held them.
 *
 * <pre>
 * SemaphoreContender LIMIT CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command                    answer
 *                            ready SESSION_ID               once connected, the id in hexadecimal
 * acquire WAIT_MS COUNT      acquired NANOS | timeout NANOS
 * release                    released NANOS                 all that were acquired last
 * session                    ready SESSION_ID               of the session there is now
 * quit                       bye                            the session is closed
 *                            failed MESSAGE                 instead of any of these
 * </pre>
 *
 * NANOS and the end of the process are as of Contender.
 */
public final class SemaphoreContender {
    private static final int CONNECT_SECONDS = 20;

    public static void main(String[] args) throws Exception {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands), "commands");
        reader.setDaemon(true);
        reader.start();

        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[1])
            .sessionTimeoutMs(Integer.parseInt(args[3]))
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(50, 8))
            .build();
        client.start();
        if (!client.blockUntilConnected(CONNECT_SECONDS, TimeUnit.SECONDS)) {
            say("failed no connection to " + args[1] + " within " + CONNECT_SECONDS + " s");
            System.exit(1);
        }
        InterProcessSemaphoreV2 semaphore =
            new InterProcessSemaphoreV2(client, args[2], Integer.parseInt(args[0]));
        Collection<Lease> leases = null;
        say(session(client));

        while (true) {
            String[] words = commands.take().trim().split(" +");
            try {
                switch (words[0]) {
                    case "acquire":
                        leases = semaphore.acquire(
                            Integer.parseInt(words[2]), Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                        say((leases != null ? "acquired " : "timeout ") + System.nanoTime());
                        break;
                    case "release":
                        long before = System.nanoTime();
                        semaphore.returnAll(leases);
                        say("released " + before);
                        break;
                    case "session":
                        say(session(client));
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

    private static String session(CuratorFramework client) throws Exception {
        return "ready " + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId());
    }

    /** A thread of its own, because the main one may be waiting for leases when the driver goes away. */
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
