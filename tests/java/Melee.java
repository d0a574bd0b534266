import java.io.File;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/**
 * Takes a Curator lock again and again, and asks files in a directory whether it may have it.
 *
 * <pre>
 * Melee NAME CONNECT PATH SESSION_TIMEOUT_MS DIRECTORY ROLE
 * </pre>
 *
 * ROLE is mutex, read, write, or semaphore-N of N leases. While it holds the lock it holds a POSIX lock of the file
 * "lock" in the directory, shared if it reads, or of one of the files "slot-0" to "slot-(N-1)"; that such a lock is not
 * to be had is an overlap. Each grant is a line in the file "log" there: "granted NAME" or "overlap NAME".
 */
public final class Melee {
    private static FileChannel log;

    public static void main(String[] args) throws Exception {
        String name = args[0];
        String path = args[2];
        String role = args[5];
        CuratorFramework client = Peer.connect(args[1], args[3]);
        File directory = new File(args[4]);
        log = open(directory, "log", StandardOpenOption.APPEND);

        InterProcessMutex mutex = null;
        InterProcessSemaphoreV2 semaphore = null;
        List<FileChannel> files = new ArrayList<>();
        if (role.startsWith("semaphore-")) {
            int leases = Integer.parseInt(role.substring("semaphore-".length()));
            semaphore = new InterProcessSemaphoreV2(client, path, leases);
            for (int i = 0; i < leases; i++) {
                files.add(open(directory, "slot-" + i, StandardOpenOption.READ));
            }
        } else {
            files.add(open(directory, "lock", StandardOpenOption.READ));
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            mutex = role.equals("read") ? both.readLock()
                : role.equals("write") ? both.writeLock() : new InterProcessMutex(client, path);
        }
        while (true) {
            try {
                if (semaphore != null) {
                    Lease lease = semaphore.acquire();
                    hold(name, files, false);
                    semaphore.returnLease(lease);
                } else {
                    mutex.acquire();
                    hold(name, files, role.equals("read"));
                    mutex.release();
                }
            } catch (Exception e) {
                System.err.println(name + ": " + e);
            }
        }
    }

    private static void hold(String name, List<FileChannel> files, boolean isShared) throws Exception {
        FileLock held = null;
        for (FileChannel file : files) {
            held = file.tryLock(0, Long.MAX_VALUE, isShared);
            if (held != null) {
                break;
            }
        }
        say((held == null ? "overlap " : "granted ") + name);
        if (held != null) {
            TimeUnit.MILLISECONDS.sleep(1);
            held.release();
        }
    }

    private static FileChannel open(File directory, String name, StandardOpenOption option) throws Exception {
        return FileChannel.open(new File(directory, name).toPath(),
            option, StandardOpenOption.WRITE, StandardOpenOption.CREATE);
    }

    private static void say(String line) throws Exception {
        log.write(ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8)));
    }
}
