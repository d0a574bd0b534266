import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Registers instances with Curator's service discovery, and tells which it finds.
 *
 * <pre>
 * DiscoveryPeer CONNECT BASE SERVICE
 *
 * command                       answer
 *                               ready SESSION_ID
 * register ID ZONE WEIGHT       registered
 * update ID ZONE WEIGHT         updated
 * unregister ID                 unregistered
 * list                          found ID=ZONE:WEIGHT:ENABLED:URI ...      by their ids
 * </pre>
 */
public final class DiscoveryPeer {
    /** The payload. */
    public static final class Meta {
        public String zone;
        public int weight;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = Peer.connect(args[0], "10000");
        ServiceDiscovery<Meta> discovery = ServiceDiscoveryBuilder.builder(Meta.class)
            .client(client)
            .basePath(args[1])
            .serializer(new JsonInstanceSerializer<>(Meta.class))
            .build();
        discovery.start();
        Map<String, ServiceInstance<Meta>> registered = new ConcurrentHashMap<>();
        Peer.ready(client);
        Peer.serve(() -> {
            discovery.close();
            client.close();
        }, Map.of(
            "register", words -> {
                ServiceInstance<Meta> instance = instance(args[2], words);
                discovery.registerService(instance);
                registered.put(words[1], instance);
                Peer.say("registered");
            },
            "update", words -> {
                ServiceInstance<Meta> instance = instance(args[2], words);
                discovery.updateService(instance);
                registered.put(words[1], instance);
                Peer.say("updated");
            },
            "unregister", words -> {
                discovery.unregisterService(registered.remove(words[1]));
                Peer.say("unregistered");
            },
            "list", words -> {
                Map<String, String> found = new TreeMap<>();
                for (ServiceInstance<Meta> one : discovery.queryForInstances(args[2])) {
                    Meta meta = one.getPayload();
                    found.put(one.getId(), one.getId() + "=" + meta.zone + ":" + meta.weight + ":" + one.isEnabled()
                        + ":" + one.buildUriSpec());
                }
                Peer.say(("found " + String.join(" ", found.values())).trim());
            }));
    }

    private static ServiceInstance<Meta> instance(String service, String[] words) throws Exception {
        Meta meta = new Meta();
        meta.zone = words[2];
        meta.weight = Integer.parseInt(words[3]);
        return ServiceInstance.<Meta>builder()
            .name(service)
            .id(words[1])
            .address("10.0.0.1")
            .port(8080)
            .payload(meta)
            .registrationTimeUTC(5)
            .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
            .build();
    }
}
