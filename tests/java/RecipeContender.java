import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
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
    private static final long CONNECT_SECONDS = 20;

    public static void main(String[] args) throws Exception {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands), "commands");
        reader.setDaemon(true);
        reader.start();

        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(args[0], Integer.parseInt(args[2]), event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(CONNECT_SECONDS, TimeUnit.SECONDS)) {
            say("failed no connection to " + args[0] + " within " + CONNECT_SECONDS + " s");
            System.exit(1);
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
        say("ready " + Long.toHexString(client.getSessionId()));

        while (true) {
            String[] words = commands.take().trim().split(" +");
            try {
                switch (words[0]) {
                    case "acquire":
                        acquired.drainPermits();
                        lock.lock();
                        if (acquired.tryAcquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS)) {
                            say("acquired " + System.nanoTime());
                        } else {
                            lock.unlock();
                            say("timeout " + System.nanoTime());
                        }
                        break;
                    case "release":
                        long before = System.nanoTime();
                        lock.unlock();
                        say("released " + before);
                        break;
                    case "quit":
                        client.close();
                        say("bye");
                        System.exit(0);
                        break;
                    default:
                        say("failed unknown command " + words[0]);
                }
            } catch (Exception e) {
                say("failed " + e.toString().replace('\n', ' '));
            }
        }
    }

    /** A thread of its own, because the main one may be waiting for the lock when the driver goes away. */
    private static void read(BlockingQueue<String> commands) {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                commands.add(line);
            }
        } catch (java.io.IOException e) {
            System.err.println("cannot read commands: " + e);
        }
        Runtime.getRuntime().halt(2);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
