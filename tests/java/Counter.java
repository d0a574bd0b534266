import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/**
 * Increments a DistributedAtomicLong of Curator's so many times and prints what each increment came to, one a line.
 *
 * <pre>
 * Counter CONNECT PATH TIMES
 * </pre>
 */
public final class Counter {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new ExponentialBackoffRetry(50, 8));
        client.start();
        DistributedAtomicLong counter = new DistributedAtomicLong(client, args[1], new RetryNTimes(1_000, 1));
        for (int times = Integer.parseInt(args[2]); times > 0; times--) {
            AtomicValue<Long> value = counter.increment();
            if (!value.succeeded()) {
                throw new IllegalStateException("the counter was contended for too long");
            }
            System.out.println(value.postValue());
        }
        client.close();
    }
}
