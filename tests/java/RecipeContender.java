import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Takes a lock with ZooKeeper's own recipe, WriteLock, when told to. Arguments, commands and answers are those of
 * Contender, but for "contend".
 *
 * Do not let it give up: the watch of the recipe stays, and what it watched for makes it join the queue again.
 */
public final class RecipeContender {
    public static void main(String[] args) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(args[0], Integer.parseInt(args[2]), event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(Peer.connectSeconds(), TimeUnit.SECONDS)) {
            Peer.notConnected(args[0]);
        }
        Semaphore acquired = new Semaphore(0);
        WriteLock lock = new WriteLock(client, args[1], ZooDefs.Ids.OPEN_ACL_UNSAFE, new LockListener() {
            @Override
            public void lockAcquired() {
                acquired.release();
            }

            @Override
            public void lockReleased() {
            }
        });
        Peer.ready(client.getSessionId());
        Peer.serve(client::close, Map.of(
            "acquire", words -> {
                acquired.drainPermits();
                lock.lock();
                boolean isHeld = acquired.tryAcquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                if (!isHeld) {
                    lock.unlock();
                }
                Peer.acquired(isHeld);
            },
            "release", words -> Peer.released(lock::unlock)));
    }
}
