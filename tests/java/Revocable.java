import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.Revoker;

/**
 * Holds a Curator lock that can be revoked, and revokes locks of others.
 *
 * <pre>
 * Revocable CONNECT PATH
 *
 * command               answer             besides those of Peer
 * acquire               acquired           the lock is held, and revocable
 *                       revoked            whenever the lock was asked for; it was released
 * revoke NODE           asked              Revoker.attemptRevoke was called
 * </pre>
 */
public final class Revocable {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], "10000");
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "acquire", words -> hold(client, args[1]),
            "revoke", words -> {
                Revoker.attemptRevoke(client, words[1]);
                Peer.say("asked");
            }));
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
                    Peer.say("acquired");
                    revoked.wait();
                }
                mutex.release();
                Peer.say("revoked");
            } catch (Exception e) {
                Peer.failed(e);
            }
        }, "holder");
        holder.setDaemon(true);
        holder.start();
    }
}
