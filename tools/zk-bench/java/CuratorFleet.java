import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Opens sessions and leaves them idle, and then lets each of them hold a lock.
 *
 * <pre>
 * CuratorFleet CONNECT SESSION_TIMEOUT_MS SESSIONS
 * </pre>
 *
 * Prints "idle" once all sessions are open. The line "hold" on the standard input makes each session acquire an
 * InterProcessMutex of its own; "holding" is the answer. The end of the input ends the process.
 */
public final class CuratorFleet {
    private static final int WAIT_SECONDS = 60;

    private CuratorFleet() {
    }

    public static void main(String[] args) throws Exception {
        try {
            int sessionTimeout = Integer.parseInt(args[1]);
            List<CuratorFramework> clients = new ArrayList<>();
            for (int i = 0; i < Integer.parseInt(args[2]); i++) {
                CuratorFramework client = CuratorFrameworkFactory.newClient(
                    args[0], sessionTimeout, sessionTimeout, new ExponentialBackoffRetry(50, 8));
                client.start();
                clients.add(client);
            }
            for (CuratorFramework client : clients) {
                if (!client.blockUntilConnected(WAIT_SECONDS, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no connection within " + WAIT_SECONDS + " s");
                }
            }
            serve(clients);
        } catch (Exception e) {
            System.out.println("failed: " + e);
            System.exit(1);
        }
        System.exit(0);
    }

    private static void serve(List<CuratorFramework> clients) throws Exception {
        System.out.println("idle");
        List<InterProcessMutex> held = new ArrayList<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            for (CuratorFramework client : clients) {
                InterProcessMutex mutex = new InterProcessMutex(client, "/curator-fleet/" + held.size());
                if (!mutex.acquire(WAIT_SECONDS, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("a lock was not acquired within " + WAIT_SECONDS + " s");
                }
                held.add(mutex);
            }
            System.out.println("holding");
        }
    }
}
