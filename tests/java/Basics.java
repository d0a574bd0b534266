import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Does with ZooKeeper's own client what every client does, checks each result, and prints "done".
 *
 * <pre>
 * Basics CONNECT
 * </pre>
 */
public final class Basics {
    public static void main(String[] args) throws Exception {
        ZooKeeper client = connect(args[0]);
        ZooKeeper other = connect(args[0]);

        String path = client.create("/java", "one".getBytes(), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        expect("create", path, "/java");
        Stat stat = new Stat();
        expect("get", new String(client.getData("/java", false, stat)), "one");
        expect("version", stat.getVersion(), 0);
        CountDownLatch changed = new CountDownLatch(1);
        CountDownLatch listed = new CountDownLatch(1);
        CountDownLatch below = new CountDownLatch(3);
        client.getData("/java", event -> changed.countDown(), null);
        client.getChildren("/java", event -> listed.countDown());
        client.addWatch("/java", event -> below.countDown(), AddWatchMode.PERSISTENT_RECURSIVE);
        expect("set", other.setData("/java", "two".getBytes(), 0).getVersion(), 1);
        try {
            other.setData("/java", "three".getBytes(), 0);
            throw new IllegalStateException("a wrong version was accepted");
        } catch (KeeperException.BadVersionException expected) {
            // As it should be.
        }
        String child = other.create("/java/child-", null, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL);
        expect("sequence", child, "/java/child-0000000000");
        await("the data watch", changed);
        await("the child watch", listed);
        expect("children", client.getChildren("/java", false), Collections.singletonList("child-0000000000"));
        expect("owner", client.exists(child, false).getEphemeralOwner(), other.getSessionId());
        expect("count", client.getAllChildrenNumber("/java"), 1);
        expect("ephemerals", other.getEphemerals("/java"), Collections.singletonList(child));
        expect("acl", client.getACL("/java", new Stat()), Ids.OPEN_ACL_UNSAFE);

        List<OpResult> results = client.multi(Arrays.asList(
            Op.check("/java", 1),
            Op.create("/java/a", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
            Op.setData("/java", "four".getBytes(), -1)));
        expect("transaction", ((OpResult.CreateResult) results.get(1)).getPath(), "/java/a");
        try {
            client.multi(Arrays.asList(Op.delete("/java/a", -1), Op.delete("/missing", -1)));
            throw new IllegalStateException("a transaction was not refused");
        } catch (KeeperException.NoNodeException refused) {
            expect("parts", refused.getResults().size(), 2);
        }
        if (client.exists("/java/a", false) == null) {
            throw new IllegalStateException("a refused transaction was applied in part");
        }
        await("the recursive watch", below);

        CountDownLatch gone = new CountDownLatch(1);
        client.exists(child, event -> gone.countDown());
        other.close();
        await("the end of an ephemeral node", gone);
        client.removeAllWatches("/java", Watcher.WatcherType.Any, false);
        client.delete("/java/a", -1);
        client.delete("/java", -1);
        expect("delete", client.exists("/java", false), null);
        client.close();
        System.out.println("done");
    }

    private static ZooKeeper connect(String servers) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(servers, 10_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        await("a connection", connected);
        return client;
    }

    private static void await(String what, CountDownLatch latch) throws Exception {
        if (!latch.await(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException(what + " did not come");
        }
    }

    private static void expect(String what, Object found, Object wanted) {
        if (found == null ? wanted != null : !found.equals(wanted)) {
            throw new IllegalStateException(what + ": " + found + " instead of " + wanted);
        }
    }
}
