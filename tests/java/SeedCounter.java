import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Moves the counter that numbers a node's sequential children, in the files of a server that does not run.
 *
 * <pre>
 * SeedCounter DATA_DIR DATA_LOG_DIR PATH NEXT
 * </pre>
 *
 * Reads what the server would read when it starts, changes the one number, and writes a snapshot of that moment, which
 * is then the newest. The counter only moves forwards.
 */
public final class SeedCounter {
    public static void main(String[] args) throws Exception {
        FileTxnSnapLog files = new FileTxnSnapLog(new File(args[1]), new File(args[0]));
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        files.restore(tree, sessions, (header, record, digest) -> { });

        int next = Integer.parseInt(args[3]);
        DataNode parent = tree.getNode(args[2]);
        if (parent == null) {
            throw new IllegalArgumentException("there is no " + args[2] + " in " + args[0]);
        }
        tree.setCversionPzxid(args[2], next, parent.stat.getPzxid());
        if (parent.stat.getCversion() != next) {
            throw new IllegalArgumentException("the counter is at " + parent.stat.getCversion()
                + " and does not go back to " + next);
        }
        files.save(tree, sessions, true);
        files.close();
    }
}
