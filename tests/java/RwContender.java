import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes a Curator read/write lock when told to.
 *
 * <pre>
 * RwContender CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command                     answer
 *                             ready SESSION_ID               once connected, the id in hexadecimal
 * acquire read|write WAIT_MS  acquired NANOS | timeout NANOS
 * release read|write          released NANOS
 * quit                        bye                            the session is closed
 *                             failed MESSAGE                 instead of any of these
 * </pre>
 *
 * The words mean what they mean to Contender. All commands are carried out by one thread, so that its own locks do not
 * exclude each other: a writer that acquires for reading and then ends to write becomes a reader.
 */
public final class RwContender {
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
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, args[1]);
        say("ready " + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));

        while (true) {
            String[] words = commands.take().trim().split(" +");
            try {
                switch (words[0]) {
                    case "acquire":
                        boolean held = side(lock, words[1]).acquire(Long.parseLong(words[2]), TimeUnit.MILLISECONDS);
                        say((held ? "acquired " : "timeout ") + System.nanoTime());
                        break;
                    case "release":
                        long before = System.nanoTime();
                        side(lock, words[1]).release();
                        say("released " + before);
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

    private static InterProcessMutex side(InterProcessReadWriteLock lock, String mode) {
        return mode.equals("read") ? lock.readLock() : lock.writeLock();
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
