import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes part in an election of Curator's when told to, and says when it led: the commands of Contender, and one more.
 *
 * <pre>
 * Elector latch|selector ID CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command               answer
 *                       ready SESSION_ID               once connected, the id in hexadecimal
 * acquire WAIT_MS       acquired NANOS | timeout NANOS joins; after a timeout it stays in line
 * release               released NANOS                 leaves
 * contend N HOLD_MS     N times: acquired NANOS, then released NANOS
 * participants          participants ID…               separated by commas, a star behind the leader
 * quit                  bye                            the session is closed
 *                       failed MESSAGE                 instead of any of these
 * </pre>
 */
public final class Elector {
    private static final long CONNECT_SECONDS = 20;

    /** What the latch and the selector have in common here. */
    private interface Election {
        boolean acquire(long millis) throws Exception;

        void release() throws Exception;

        Collection<Participant> participants() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(commands), "commands");
        reader.setDaemon(true);
        reader.start();

        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[2])
            .sessionTimeoutMs(Integer.parseInt(args[4]))
            .connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(50, 8))
            .build();
        client.start();
        if (!client.blockUntilConnected((int) CONNECT_SECONDS, TimeUnit.SECONDS)) {
            say("failed no connection to " + args[2] + " within " + CONNECT_SECONDS + " s");
            System.exit(1);
        }
        Election election = args[0].equals("latch")
            ? new ByLatch(client, args[3], args[1])
            : new BySelector(client, args[3], args[1]);
        say("ready " + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));

        while (true) {
            String[] words = commands.take().trim().split(" +");
            try {
                switch (words[0]) {
                    case "acquire":
                        boolean leads = election.acquire(Long.parseLong(words[1]));
                        say((leads ? "acquired " : "timeout ") + System.nanoTime());
                        break;
                    case "release":
                        say("released " + release(election));
                        break;
                    case "contend":
                        contend(election, Integer.parseInt(words[1]), Long.parseLong(words[2]));
                        break;
                    case "participants":
                        StringBuilder all = new StringBuilder();
                        for (Participant one : election.participants()) {
                            all.append(all.length() == 0 ? "" : ",");
                            all.append(one.getId()).append(one.isLeader() ? "*" : "");
                        }
                        say("participants " + all);
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

    private static final class ByLatch implements Election {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private LeaderLatch latch;

        ByLatch(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            if (latch == null) {
                latch = new LeaderLatch(client, path, id);
                latch.start();
            }
            return latch.await(millis, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            latch.close();
            latch = null;
        }

        @Override
        public Collection<Participant> participants() throws Exception {
            return latch.getParticipants();
        }
    }

    private static final class BySelector extends LeaderSelectorListenerAdapter implements Election {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private final Semaphore taken = new Semaphore(0);
        private final Semaphore done = new Semaphore(0);
        private LeaderSelector selector;

        BySelector(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public void takeLeadership(CuratorFramework framework) throws Exception {
            taken.release();
            done.acquire();
        }

        @Override
        public boolean acquire(long millis) throws Exception {
            if (selector == null) {
                selector = new LeaderSelector(client, path, this);
                selector.setId(id);
                selector.start();
            }
            return taken.tryAcquire(millis, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            done.release();
            // Closing would interrupt the task in the middle of it.
            while (selector.hasLeadership()) {
                TimeUnit.MILLISECONDS.sleep(1);
            }
            selector.close();
            selector = null;
        }

        @Override
        public Collection<Participant> participants() throws Exception {
            return selector.getParticipants();
        }
    }

    private static void contend(Election election, int times, long holdMillis) throws Exception {
        for (int i = 0; i < times; i++) {
            if (!election.acquire(60_000)) {
                throw new IllegalStateException("not the leader within a minute");
            }
            say("acquired " + System.nanoTime());
            TimeUnit.MILLISECONDS.sleep(holdMillis);
            say("released " + release(election));
        }
    }

    private static long release(Election election) throws Exception {
        long before = System.nanoTime();
        election.release();
        return before;
    }

    /** A thread of its own, because the main one may be waiting to lead when the driver goes away. */
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
