import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;

/**
 * Takes a Curator read/write lock when told to.
 *
 * <pre>
 * RwContender CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command                     answer                         besides those of Peer
 * acquire read|write WAIT_MS  acquired NANOS | timeout NANOS
 * release read|write          released NANOS
 * </pre>
 *
 * The words mean what they mean to Contender. All commands are carried out by one thread, so that its own locks do not
 * exclude each other: a writer that acquires for reading and then ends to write becomes a reader.
 */
public final class RwContender {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], args[2]);
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, args[1]);
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "acquire", words -> Peer.acquired(
                side(lock, words[1]).acquire(Long.parseLong(words[2]), TimeUnit.MILLISECONDS)),
            "release", words -> Peer.released(side(lock, words[1])::release)));
    }

    private static InterProcessMutex side(InterProcessReadWriteLock lock, String mode) {
        return mode.equals("read") ? lock.readLock() : lock.writeLock();
    }
}
