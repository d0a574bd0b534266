import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/**
 * Keeps nodes and joins groups with Curator's recipes.
 *
 * <pre>
 * GroupPeer CONNECT
 *
 * command                       answer
 *                               ready SESSION_ID
 * join PATH ID PAYLOAD          joined
 * payload PAYLOAD               written
 * list                          found ID=PAYLOAD ...       by their ids
 * leave                         left
 * null PATH                     made                       an ephemeral node whose data is null
 * keep MODE PATH DATA           kept PATH                  a mode of CreateMode
 * touch MILLIS PATH DATA        kept PATH                  with a time to live
 * set DATA                      written
 * close                         closed
 * </pre>
 */
public final class GroupPeer {
    private static GroupMember member;
    private static PersistentNode node;
    private static PersistentTtlNode ttlNode;

    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], "10000");
        Peer.ready(client);
        Peer.serve(client::close, Map.of(
            "join", words -> {
                member = new GroupMember(client, words[1], words[2], bytes(words[3]));
                member.start();
                Peer.say("joined");
            },
            "payload", words -> {
                member.setThisData(bytes(words[1]));
                Peer.say("written");
            },
            "list", words -> {
                Map<String, String> found = new TreeMap<>();
                member.getCurrentMembers().forEach(
                    (id, data) -> found.put(id, id + "=" + new String(data, StandardCharsets.UTF_8)));
                Peer.say(("found " + String.join(" ", found.values())).trim());
            },
            "leave", words -> {
                member.close();
                Peer.say("left");
            },
            "null", words -> {
                client.create().creatingParentContainersIfNeeded().withMode(CreateMode.EPHEMERAL)
                    .forPath(words[1], null);
                Peer.say("made");
            },
            "keep", words -> {
                node = new PersistentNode(client, CreateMode.valueOf(words[1]), false, words[2], bytes(words[3]));
                node.start();
                kept(node.waitForInitialCreate(20, TimeUnit.SECONDS), node.getActualPath());
            },
            "touch", words -> {
                ttlNode = new PersistentTtlNode(client, words[2], Long.parseLong(words[1]), bytes(words[3]));
                ttlNode.start();
                kept(ttlNode.waitForInitialCreate(20, TimeUnit.SECONDS), words[2]);
            },
            "set", words -> {
                node.setData(bytes(words[1]));
                Peer.say("written");
            },
            "close", words -> {
                if (node != null) {
                    node.close();
                }
                if (ttlNode != null) {
                    ttlNode.close();
                }
                node = null;
                ttlNode = null;
                Peer.say("closed");
            }));
    }

    private static void kept(boolean isCreated, String path) {
        Peer.say(isCreated ? "kept " + path : "failed not created within 20 s");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
