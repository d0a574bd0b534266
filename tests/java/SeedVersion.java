import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * Sets the version of a node's data, in the files of a server that does not run.
 *
 * <pre>
 * SeedVersion DATA_DIR DATA_LOG_DIR PATH VERSION
 * </pre>
 *
 * Reads what the server would read when it starts, changes the one number, and writes a snapshot of that moment, which
 * is then the newest.
 */
public final class SeedVersion {
    public static void main(String[] args) throws Exception {
        FileTxnSnapLog files = new FileTxnSnapLog(new File(args[1]), new File(args[0]));
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        files.restore(tree, sessions, (header, record, digest) -> { });

        DataNode node = tree.getNode(args[2]);
        if (node == null) {
            throw new IllegalArgumentException("there is no " + args[2] + " in " + args[0]);
        }
        node.stat.setVersion(Integer.parseInt(args[3]));
        files.save(tree, sessions, true);
        files.close();
    }
}
