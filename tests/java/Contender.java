import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/**
 * Takes a Curator lock when told to, and says when it held it.
 *
 * <pre>
 * Contender CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command               answer                         besides those of Peer
 * acquire WAIT_MS       acquired NANOS | timeout NANOS
 * release               released NANOS
 * contend N HOLD_MS     N times: acquired NANOS, then released NANOS
 * </pre>
 *
 * NANOS is System.nanoTime(), for "acquired" once the lock is held and for "released" while it still is: what lies
 * between is time for which the lock was held.
 */
public final class Contender {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], args[2]);
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "acquire", words -> Peer.acquired(mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS)),
            "release", words -> Peer.released(mutex::release),
            "contend", words -> Peer.contend(
                Integer.parseInt(words[1]), Long.parseLong(words[2]), mutex::acquire, mutex::release)));
    }
}
