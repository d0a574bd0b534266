import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Prints the public classes of jars of the class path: artifact, class and declared public methods, separated by tabs.
 * The arguments are the artifacts. A nested class is public if all classes around it are.
 */
public final class PublicClasses {
    private static final SortedSet<String> OF_OBJECT = new TreeSet<>();

    private PublicClasses() {
    }

    public static void main(String[] artifacts) throws Exception {
        for (Method method : Object.class.getMethods()) {
            OF_OBJECT.add(method.getName());
        }
        for (String artifact : artifacts) {
            try (JarFile jar = new JarFile(find(artifact))) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    String name = entry.getName();
                    if (name.endsWith(".class") && !name.endsWith("module-info.class")) {
                        print(artifact, name.substring(0, name.length() - ".class".length()).replace('/', '.'));
                    }
                }
            }
        }
    }

    private static File find(String artifact) {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            File file = new File(path);
            if (file.getName().matches(artifact + "(-[0-9].*)?\\.jar")) {
                return file;
            }
        }
        throw new IllegalArgumentException(artifact + " is not on the class path");
    }

    private static void print(String artifact, String name) throws ClassNotFoundException {
        Class<?> found = Class.forName(name, false, PublicClasses.class.getClassLoader());
        for (Class<?> around = found; around != null; around = around.getEnclosingClass()) {
            if (!Modifier.isPublic(around.getModifiers()) || around.isAnonymousClass() || around.isLocalClass()) {
                return;
            }
        }
        SortedSet<String> methods = new TreeSet<>();
        for (Method method : found.getDeclaredMethods()) {
            if (Modifier.isPublic(method.getModifiers()) && !method.isSynthetic()) {
                methods.add(method.getName());
            }
        }
        methods.removeAll(OF_OBJECT);
        System.out.println(artifact + "\t" + found.getCanonicalName() + "\t" + String.join(" ", methods));
    }
}
