import java.util.Collection;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/**
 * Takes part in an election of Curator's when told to, and says when it led: the commands of Contender, and one more.
 *
 * <pre>
 * Elector latch|selector ID CONNECT PATH SESSION_TIMEOUT_MS
 *
 * command               answer                         besides those of Peer
 * acquire WAIT_MS       acquired NANOS | timeout NANOS joins; after a timeout it stays in line
 * release               released NANOS                 leaves
 * contend N HOLD_MS     N times: acquired NANOS, then released NANOS
 * participants          participants ID…               separated by commas, a star behind the leader
 * </pre>
 */
public final class Elector {
    /** What the latch and the selector have in common here. */
    private interface Election {
        boolean acquire(long millis) throws Exception;

        void release() throws Exception;

        Collection<Participant> participants() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[2], args[4]);
        Election election = args[0].equals("latch")
            ? new ByLatch(client, args[3], args[1])
            : new BySelector(client, args[3], args[1]);
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "acquire", words -> Peer.acquired(election.acquire(Long.parseLong(words[1]))),
            "release", words -> Peer.released(election::release),
            "contend", words -> Peer.contend(
                Integer.parseInt(words[1]), Long.parseLong(words[2]), () -> lead(election), election::release),
            "participants", words -> Peer.say("participants " + election.participants().stream()
                .map(one -> one.getId() + (one.isLeader() ? "*" : ""))
                .collect(Collectors.joining(",")))));
    }

    private static void lead(Election election) throws Exception {
        if (!election.acquire(60_000)) {
            throw new IllegalStateException("not the leader within a minute");
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
}
