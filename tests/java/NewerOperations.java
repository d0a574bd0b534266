import java.util.Arrays;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.Stat;

/** Also performs the operations that ZooKeeper's own client has got since 3.5; needs 3.8. */
final class NewerOperations extends Operations {
    private static final long HOUR = 3_600_000;

    private final Watcher watcher = event -> { };

    private NewerOperations(String connect) {
        super(connect);
    }

    public static void main(String[] args) {
        run(new NewerOperations(args[0]));
    }

    @Override
    void older() {
    }

    @Override
    void newer() throws Exception {
        step("create parent", () -> zk.create("/newer", new byte[0], OPEN, CreateMode.PERSISTENT));
        create2("create2 persistent", "/newer/p", CreateMode.PERSISTENT);
        create2("create2 persistent sequential", "/newer/n-", CreateMode.PERSISTENT_SEQUENTIAL);
        create2("create2 ephemeral", "/newer/e", CreateMode.EPHEMERAL);
        create2("create2 ephemeral sequential", "/newer/n-", CreateMode.EPHEMERAL_SEQUENTIAL);
        create("create container", "/newer/container", CreateMode.CONTAINER);
        create2("create2 container", "/newer/container2", CreateMode.CONTAINER);
        createTtl("create with time to live", "/newer/ttl", CreateMode.PERSISTENT_WITH_TTL);
        createTtl("create sequential with time to live", "/newer/n-", CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL);
        step("multi of newer kinds", () -> zk.multi(Arrays.asList(
            Op.create("/newer/container3", bytes("data"), OPEN, CreateMode.CONTAINER),
            Op.create("/newer/ttl3", bytes("data"), OPEN, CreateMode.PERSISTENT_WITH_TTL, HOUR))));
        step("multi read", () -> zk.multi(Arrays.asList(
            Op.getData("/golden"),
            Op.getChildren("/newer/p"),
            Op.getData("/none"))));
        step("get ephemeral nodes", () -> zk.getEphemerals());
        step("get ephemeral nodes below", () -> zk.getEphemerals("/newer"));
        step("count all children", () -> zk.getAllChildrenNumber("/newer"));
        step("who am I", () -> zk.whoAmI());
        step("get config", () -> zk.getConfig(false, new Stat()));
        removeWatches();
    }

    @Override
    void newerWatches() throws Exception {
        open("connect for persistent watches", () -> zk = new ZooKeeper(connect, TIMEOUT, this::notice));
        step("all watches", () -> {
            watches();
            zk.addWatch("/golden/p", AddWatchMode.PERSISTENT);
            zk.addWatch("/golden/r", AddWatchMode.PERSISTENT_RECURSIVE);
        });
        cut("reconnect with all watches");
        step("close with all watches", zk::close);
        open("connect as admin", () -> zk = new ZooKeeperAdmin(connect, TIMEOUT, this::notice));
        ZooKeeperAdmin admin = (ZooKeeperAdmin) zk;
        String joining = "server.7=127.0.0.1:2888:3888:observer;127.0.0.1:2181";
        refused("reconfigure by difference", Code.RECONFIGDISABLED, () ->
            admin.reconfigure(joining, "8,9", null, -1, new Stat()));
        refused("reconfigure by members", Code.RECONFIGDISABLED, () ->
            admin.reconfigure((String) null, null, joining, 0x1_0000_0002L, new Stat()));
        step("close as admin", zk::close);
    }

    /** Removes watches of each kind that this release has: this watcher's, then everyone's. */
    private void removeWatches() throws Exception {
        for (WatcherType type : WatcherType.values()) {
            step("check watches " + type, () -> {
                set(type);
                zk.removeWatches("/newer", watcher, type, false);
            });
            step("remove watches " + type, () -> {
                set(type);
                zk.removeAllWatches("/newer", type, false);
            });
        }
        refused("remove watches that are not set", Code.NOWATCHER, () ->
            zk.removeAllWatches("/newer", WatcherType.Data, false));
    }

    private void set(WatcherType type) throws Exception {
        switch (type.name()) {
            case "Children":
                zk.getChildren("/newer", watcher);
                break;
            case "Persistent":
                zk.addWatch("/newer", watcher, AddWatchMode.PERSISTENT);
                break;
            case "PersistentRecursive":
                zk.addWatch("/newer", watcher, AddWatchMode.PERSISTENT_RECURSIVE);
                break;
            default:
                zk.exists("/newer", watcher);
        }
    }

    private void create2(String name, String path, CreateMode mode) throws Exception {
        step(name, () -> zk.create(path, bytes("data"), OPEN, mode, new Stat()));
    }

    private void createTtl(String name, String path, CreateMode mode) throws Exception {
        step(name, () -> zk.create(path, bytes("data"), OPEN, mode, new Stat(), HOUR));
    }
}
