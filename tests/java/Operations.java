import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Performs every operation that ZooKeeper's own client has had since 3.4, one after the other.
 *
 * <pre>
 * Operations CONNECT
 *
 * says            and waits for a line
 * did NAME        an operation was performed
 * cut             the connection is to be cut
 * end             that was all
 * failed MESSAGE  instead, and ends
 * </pre>
 */
class Operations {
    static final int TIMEOUT = 30_000;
    static final int SHORT_TIMEOUT = 1_500;
    static final List<ACL> OPEN = Ids.OPEN_ACL_UNSAFE;

    /** A part of the program, which may fail. */
    interface Step {
        void run() throws Exception;
    }

    private static final PrintStream OUT = System.out;
    private static final BufferedReader IN =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    final String connect;
    /** How often a session got a connection. */
    private final Semaphore connected = new Semaphore(0);
    ZooKeeper zk;

    Operations(String connect) {
        this.connect = connect;
    }

    public static void main(String[] args) {
        run(new Operations(args[0]));
    }

    static void run(Operations operations) {
        try {
            operations.all();
            OUT.println("end");
            System.exit(0);
        } catch (Throwable failure) {
            OUT.println("failed " + failure);
            failure.printStackTrace();
            System.exit(1);
        }
    }

    /** Operations that later clients do not send. */
    void older() throws Exception {
        step("multi of nothing", () -> zk.multi(Collections.<Op>emptyList()));
    }

    /** Operations of later releases. */
    void newer() throws Exception {
    }

    /** Sets watches of later releases, and restores them. */
    void newerWatches() throws Exception {
    }

    private void all() throws Exception {
        open("connect", () -> zk = new ZooKeeper(connect, TIMEOUT, this::notice));
        step("auth", () -> zk.addAuthInfo("digest", bytes("user:secret")));
        creates();
        reads();
        writes();
        transactions();
        older();
        newer();
        step("close", zk::close);
        reconnect();
        newerWatches();
        open("connect, read-only if need be", () -> zk = new ZooKeeper(connect, SHORT_TIMEOUT, this::notice, true));
        step("ping", () -> { });
        zk.close();
    }

    private void creates() throws Exception {
        create("create persistent", "/golden", CreateMode.PERSISTENT);
        create("create persistent sequential", "/golden/n-", CreateMode.PERSISTENT_SEQUENTIAL);
        create("create ephemeral", "/golden/e", CreateMode.EPHEMERAL);
        create("create ephemeral sequential", "/golden/n-", CreateMode.EPHEMERAL_SEQUENTIAL);
        List<ACL> rules = Arrays.asList(
            new ACL(Perms.READ | Perms.WRITE, new Id("world", "anyone")),
            new ACL(Perms.ALL, new Id("auth", "")));
        step("create with access rules", () ->
            zk.create("/golden/rules", new byte[0], rules, CreateMode.PERSISTENT));
        refused("create existing", Code.NODEEXISTS, () ->
            zk.create("/golden", bytes("data"), OPEN, CreateMode.PERSISTENT));
    }

    private void reads() throws Exception {
        step("exists", () -> zk.exists("/golden", false));
        step("exists with watch", () -> zk.exists("/golden/none", true));
        create("create watched", "/golden/none", CreateMode.PERSISTENT);
        step("get data", () -> zk.getData("/golden", false, new Stat()));
        step("get data with watch", () -> zk.getData("/golden", true, new Stat()));
        step("set data watched", () -> zk.setData("/golden", bytes("two"), -1));
        step("get access rules", () -> zk.getACL("/golden/rules", new Stat()));
        step("get children", () -> zk.getChildren("/golden", false));
        step("get children with watch", () -> zk.getChildren("/golden/none", true));
        step("get children and stat", () -> zk.getChildren("/golden", false, new Stat()));
        step("get children and stat with watch", () -> zk.getChildren("/golden", true, new Stat()));
        step("sync", () -> {
            CountDownLatch done = new CountDownLatch(1);
            zk.sync("/golden", (code, path, context) -> done.countDown(), null);
            within(done.await(10, TimeUnit.SECONDS), "the end of a sync");
        });
    }

    private void writes() throws Exception {
        step("set data of a version", () -> zk.setData("/golden", new byte[] {0, -1}, 1));
        refused("set data of another version", Code.BADVERSION, () -> zk.setData("/golden", bytes("x"), 7));
        step("set access rules", () -> zk.setACL("/golden/rules", OPEN, -1));
        step("set access rules of a version", () -> zk.setACL("/golden/rules", OPEN, 1));
        refused("delete with children", Code.NOTEMPTY, () -> zk.delete("/golden", -1));
        step("delete of a version", () -> zk.delete("/golden/none", 0));
        step("delete", () -> zk.delete("/golden/rules", -1));
    }

    private void transactions() throws Exception {
        step("multi", () -> zk.multi(Arrays.asList(
            Op.check("/golden", 2),
            Op.create("/golden/m", bytes("data"), OPEN, CreateMode.PERSISTENT.toFlag()),
            Op.create("/golden/n-", bytes(""), OPEN, CreateMode.EPHEMERAL_SEQUENTIAL.toFlag()),
            Op.setData("/golden/m", bytes("two"), 0),
            Op.delete("/golden/m", -1))));
        refused("multi refused", Code.BADVERSION, () -> zk.multi(Arrays.asList(
            Op.create("/golden/m", bytes("data"), OPEN, CreateMode.PERSISTENT.toFlag()),
            Op.check("/golden", 7),
            Op.delete("/golden/m", -1))));
    }

    private void reconnect() throws Exception {
        open("connect again", () -> zk = new ZooKeeper(connect, TIMEOUT, this::notice));
        step("auth again", () -> zk.addAuthInfo("digest", bytes("user:secret")));
        step("watches", this::watches);
        cut("reconnect");
        step("close with watches", zk::close);
    }

    /** Sets one watch of each kind that every release has. */
    void watches() throws Exception {
        zk.getData("/golden", true, new Stat());
        zk.exists("/golden/none", true);
        zk.getChildren("/golden", true);
    }

    void create(String name, String path, CreateMode mode) throws Exception {
        step(name, () -> zk.create(path, bytes("data"), OPEN, mode));
    }

    /** Performs a step that opens a session. */
    void open(String name, Step step) throws Exception {
        step(name, () -> {
            step.run();
            awaitConnection();
        });
    }

    /** Has the connection cut, and performs a read on the next one. */
    void cut(String name) throws Exception {
        say("cut");
        step(name, () -> {
            awaitConnection();
            zk.exists("/golden", false);
        });
    }

    void refused(String name, Code code, Step step) throws Exception {
        step(name, () -> {
            try {
                step.run();
            } catch (KeeperException refusal) {
                if (refusal.code() == code) {
                    return;
                }
                throw refusal;
            }
            throw new IllegalStateException(name + " was not refused");
        });
    }

    void step(String name, Step step) throws Exception {
        try {
            step.run();
        } catch (Exception failure) {
            throw new Exception(name, failure);
        }
        say("did " + name);
    }

    void notice(WatchedEvent event) {
        if (event.getType() == Watcher.Event.EventType.None
            && event.getState() == Watcher.Event.KeeperState.SyncConnected) {
            connected.release();
        }
    }

    private void awaitConnection() throws Exception {
        within(connected.tryAcquire(20, TimeUnit.SECONDS), "a connection");
    }

    private static void within(boolean was, String what) {
        if (!was) {
            throw new IllegalStateException("waited too long for " + what);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void say(String line) throws Exception {
        OUT.println(line);
        if (IN.readLine() == null) {
            System.exit(2);
        }
    }
}
