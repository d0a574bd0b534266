import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holds a Curator lock that can be revoked, and revokes locks of others.
 *
 * <pre>
 * Revocable CONNECT PATH
 *
 * command               answer
 *                       ready              once connected
 * acquire               acquired           the lock is held, and revocable
 *                       revoked            whenever the lock was asked for; it was released
 * revoke NODE           asked              Revoker.attemptRevoke was called
 *                       failed MESSAGE     instead of any of these
 * </pre>
 *
 * The process ends with its standard input.
 */
public final class Revocable {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[0])
            .sessionTimeoutMs(10_000)
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(50, 8))
            .build();
        client.start();
        if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
            say("failed no connection to " + args[0] + " within 20 s");
            System.exit(1);
        }
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.trim().split(" +");
            try {
                switch (words[0]) {
                    case "acquire":
                        hold(client, args[1]);
                        break;
                    case "revoke":
                        Revoker.attemptRevoke(client, words[1]);
                        say("asked");
                        break;
                    default:
                        say("failed unknown command " + words[0]);
                }
            } catch (Exception e) {
                say("failed " + e.toString().replace('\n', ' '));
            }
        }
        client.close();
    }

    /** The lock belongs to a thread, which has to be the one that releases it. */
    private static void hold(CuratorFramework client, String path) {
        Object revoked = new Object();
        Thread holder = new Thread(() -> {
            try {
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                synchronized (revoked) {
                    mutex.makeRevocable(lock -> {
                        synchronized (revoked) {
                            revoked.notifyAll();
                        }
                    });
                    mutex.acquire();
                    say("acquired");
                    revoked.wait();
                }
                mutex.release();
                say("revoked");
            } catch (Exception e) {
                say("failed " + e.toString().replace('\n', ' '));
            }
        }, "holder");
        holder.setDaemon(true);
        holder.start();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
