import java.util.Collection;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/**
 * Takes leases of a Curator semaphore when told to, and says when it held them.
 *
 * <pre>
 * SemaphoreContender LIMIT CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command                    answer                         besides those of Peer
 * acquire WAIT_MS COUNT      acquired NANOS | timeout NANOS
 * release                    released NANOS                 all that were acquired last
 * session                    ready SESSION_ID               of the session there is now
 * </pre>
 *
 * NANOS is as of Contender.
 */
public final class SemaphoreContender {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[1], args[3]);
        InterProcessSemaphoreV2 semaphore =
            new InterProcessSemaphoreV2(client, args[2], Integer.parseInt(args[0]));
        AtomicReference<Collection<Lease>> leases = new AtomicReference<>();
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "acquire", words -> {
                leases.set(semaphore.acquire(
                    Integer.parseInt(words[2]), Long.parseLong(words[1]), TimeUnit.MILLISECONDS));
                Peer.acquired(leases.get() != null);
            },
            "release", words -> Peer.released(() -> semaphore.returnAll(leases.get())),
            "session", words -> Peer.ready(client)));
    }
}
