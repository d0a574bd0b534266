import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Does with ZooKeeper's own client what it is told, and says what came of it.
 *
 * <pre>
 * PlainClient CONNECT SESSION_TIMEOUT_MS CAN_BE_READ_ONLY [SCHEME CREDENTIALS]
 *
 * command               answer, after "did "           besides those of Peer
 * session               the id
 * await STATE MILLIS    STATE, or the state that it has by then
 * create PATH DATA MODE ok PATH
 * get PATH              ok DATA
 * set PATH DATA         ok VERSION
 * begin PATH DATA       begun: a set whose outcome is asked for later
 * outcome               what "set" answers
 * watch PATH            ok: the data of a node is watched once
 * persist PATH          ok: a node is watched persistently
 * events                what the watches have reported since, after a sync
 * multi PATH VERSION    ok and the kinds of the results; sets the data of a node of this version
 * </pre>
 *
 * Instead of "ok" there is the name of an error.
 */
public final class PlainClient {
    private static final BlockingQueue<String> EVENTS = new LinkedBlockingQueue<>();
    private static final BlockingQueue<String> OUTCOMES = new LinkedBlockingQueue<>();
    private static final CountDownLatch CONNECTED = new CountDownLatch(1);

    private static ZooKeeper client;

    interface Request {
        String send() throws KeeperException, InterruptedException;
    }

    public static void main(String[] args) throws Exception {
        client = new ZooKeeper(args[0], Integer.parseInt(args[1]), PlainClient::heard, Boolean.parseBoolean(args[2]));
        if (args.length > 3) {
            client.addAuthInfo(args[3], args[4].getBytes(StandardCharsets.UTF_8));
        }
        if (!CONNECTED.await(Peer.connectSeconds(), TimeUnit.SECONDS)) {
            Peer.notConnected(args[0]);
        }
        Peer.ready(client.getSessionId());
        Map<String, Peer.Command> commands = new HashMap<>();
        commands.put("session", words -> did(Long.toString(client.getSessionId())));
        commands.put("await", words -> did(await(words[1], Long.parseLong(words[2]))));
        commands.put("create", words -> did(() -> "ok " + client.create(words[1], bytes(words[2]),
            ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.valueOf(words[3].toUpperCase()))));
        commands.put("get", words -> did(() ->
            "ok " + new String(client.getData(words[1], false, null), StandardCharsets.UTF_8)));
        commands.put("set", words -> did(() -> "ok " + client.setData(words[1], bytes(words[2]), -1).getVersion()));
        commands.put("begin", words -> {
            client.setData(words[1], bytes(words[2]), -1, (code, path, context, stat) -> {
                KeeperException.Code error = KeeperException.Code.get(code);
                OUTCOMES.add(error == KeeperException.Code.OK ? "ok " + stat.getVersion() : error.name());
            }, null);
            did("begun");
        });
        commands.put("outcome", words -> {
            String outcome = OUTCOMES.poll(Peer.connectSeconds(), TimeUnit.SECONDS);
            did(outcome == null ? "none" : outcome);
        });
        commands.put("watch", words -> did(() -> {
            client.getData(words[1], true, null);
            return "ok";
        }));
        commands.put("persist", words -> did(() -> {
            client.addWatch(words[1], AddWatchMode.PERSISTENT);
            return "ok";
        }));
        commands.put("events", words -> did(events()));
        commands.put("multi", words -> did(() -> multi(words[1], Integer.parseInt(words[2]))));
        Peer.serve(client::close, commands);
    }

    private static void heard(WatchedEvent event) {
        if (event.getType() != Watcher.Event.EventType.None) {
            EVENTS.add(event.getType() + " " + event.getPath());
        } else if (event.getState() != Watcher.Event.KeeperState.Disconnected) {
            CONNECTED.countDown();
        }
    }

    private static String await(String wanted, long millis) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (!state().equals(wanted) && System.nanoTime() < end) {
            TimeUnit.MILLISECONDS.sleep(2);
        }
        return state();
    }

    private static String state() {
        switch (client.getState()) {
            case CONNECTED:
                return "CONNECTED";
            case CONNECTEDREADONLY:
                return "READONLY";
            case AUTH_FAILED:
                return "AUTHFAILED";
            case CLOSED:
                // Nothing here closes it but the end of the session.
                return "EXPIRED";
            default:
                return "DISCONNECTED";
        }
    }

    private static String events() throws InterruptedException {
        CountDownLatch synced = new CountDownLatch(1);
        // The thread that reports events calls back when all earlier ones are reported.
        client.sync("/", (code, path, context) -> synced.countDown(), null);
        synced.await(Peer.connectSeconds(), TimeUnit.SECONDS);
        List<String> events = new ArrayList<>();
        EVENTS.drainTo(events);
        return String.join(", ", events);
    }

    private static String multi(String path, int version) throws KeeperException, InterruptedException {
        byte[] data = bytes("multi");
        List<Op> ops = Arrays.asList(
            Op.create(path + "/m", data, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
            Op.setData(path, data, version),
            Op.delete(path + "/m", -1),
            Op.check(path, -1));
        try {
            StringBuilder kinds = new StringBuilder("ok");
            for (OpResult result : client.multi(ops)) {
                kinds.append(' ').append(kind(result));
            }
            return kinds.toString();
        } catch (KeeperException e) {
            List<OpResult> results = e.getResults();
            for (int at = 0; results != null && at < results.size(); at++) {
                int code = ((OpResult.ErrorResult) results.get(at)).getErr();
                if (code != 0) {
                    return KeeperException.Code.get(code).name() + " at " + at;
                }
            }
            throw e;
        }
    }

    private static String kind(OpResult result) {
        if (result instanceof OpResult.CreateResult) {
            return "created:" + ((OpResult.CreateResult) result).getPath();
        }
        if (result instanceof OpResult.SetDataResult) {
            return "set:" + ((OpResult.SetDataResult) result).getStat().getVersion();
        }
        return result instanceof OpResult.DeleteResult ? "deleted" : "checked";
    }

    private static void did(Request request) throws InterruptedException {
        try {
            did(request.send());
        } catch (KeeperException e) {
            did(e.code().name());
        }
    }

    private static void did(String answer) {
        Peer.say("did " + answer);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
