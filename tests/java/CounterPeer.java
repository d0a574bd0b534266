import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.RetryNTimes;

/**
 * Uses Curator's counters and shared values, below one path.
 *
 * <pre>
 * CounterPeer CONNECT PATH
 *
 * command               answer             besides those of Peer
 * long AMOUNT           is NUMBER          a DistributedAtomicLong at PATH/long after adding
 * integer AMOUNT        is NUMBER          a DistributedAtomicInteger at PATH/integer after adding
 * count                 is NUMBER VERSION  a SharedCount at PATH/count, read from the server
 * try-count NUMBER      is true|false      set if it is as it was when "count" was called last
 * value                 is TEXT            a SharedValue at PATH/value, read from the server
 * set-value TEXT        is TEXT
 * atomic TEXT           is TEXT            a DistributedAtomicValue at PATH/value, and what it was before
 * </pre>
 */
public final class CounterPeer {
    private static VersionedValue<Integer> seen;

    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], "10000");
        RetryNTimes retry = new RetryNTimes(1_000, 1);
        DistributedAtomicLong big = new DistributedAtomicLong(client, args[1] + "/long", retry);
        DistributedAtomicInteger small = new DistributedAtomicInteger(client, args[1] + "/integer", retry);
        DistributedAtomicValue any = new DistributedAtomicValue(client, args[1] + "/value", retry);
        SharedCount count = new SharedCount(client, args[1] + "/count", 7);
        SharedValue value = new SharedValue(client, args[1] + "/value", bytes("first"));
        count.start();
        value.start();
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "long", words -> Peer.say("is " + done(big.add(Long.parseLong(words[1])))),
            "integer", words -> Peer.say("is " + done(small.add(Integer.parseInt(words[1])))),
            "count", words -> {
                seen = count.getVersionedValue();
                Peer.say("is " + seen.getValue() + " " + seen.getVersion());
            },
            "try-count", words -> Peer.say("is " + count.trySetCount(seen, Integer.parseInt(words[1]))),
            "value", words -> Peer.say("is " + text(value.getValue())),
            "set-value", words -> {
                value.setValue(bytes(words[1]));
                Peer.say("is " + words[1]);
            },
            "atomic", words -> Peer.say("is " + text(before(any.trySet(bytes(words[1])))))));
    }

    private static <T> T done(AtomicValue<T> value) {
        if (!value.succeeded()) {
            throw new IllegalStateException("contended for too long");
        }
        return value.postValue();
    }

    private static byte[] before(AtomicValue<byte[]> value) {
        if (!value.succeeded()) {
            throw new IllegalStateException("contended for too long");
        }
        return value.preValue();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
