import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/**
 * Uses a DistributedBarrier and a DistributedDoubleBarrier on command.
 *
 * <pre>
 * BarrierPeer CONNECT BARRIER DOUBLE_BARRIER MEMBERS
 *
 * command   answer
 * set       set
 * remove    removed
 * wait      passed     once the barrier is not set
 * enter     entered    once so many members have entered
 * leave     left       once all have left
 * </pre>
 */
public final class BarrierPeer {
    private static DistributedDoubleBarrier entered;

    private BarrierPeer() {
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], "10000");
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "set", words -> {
                new DistributedBarrier(client, args[1]).setBarrier();
                Peer.say("set");
            },
            "remove", words -> {
                new DistributedBarrier(client, args[1]).removeBarrier();
                Peer.say("removed");
            },
            "wait", words -> {
                // Its server may lag behind those of the others. Requests are answered in the order they are sent.
                client.sync().forPath(args[1]);
                new DistributedBarrier(client, args[1]).waitOnBarrier();
                Peer.say("passed");
            },
            "enter", words -> {
                // One that has been left does not wait when it is entered again.
                entered = new DistributedDoubleBarrier(client, args[2], Integer.parseInt(args[3]));
                entered.enter();
                Peer.say("entered");
            },
            "leave", words -> {
                entered.leave();
                Peer.say("left");
            }));
    }
}
