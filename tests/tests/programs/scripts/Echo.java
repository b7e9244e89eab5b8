import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.Executors;

/** A server that sends back what it gets, and a client that compares. */
class Echo {
    private static final String HOST = "10.9.9.1";
    private static final int PORT = 8082;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("serve")) {
            serve();
        } else {
            ask();
        }
    }

    private static void serve() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(HOST, PORT), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }

    private static void ask() throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        Random dice = new Random(7);
        int same = 0;
        for (int i = 0; i < 20; i++) {
            byte[] sent = new byte[new int[] {1, 1000, 100_000, 1_000_000}[i % 4]];
            dice.nextBytes(sent);
            HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + HOST + ":" + PORT + "/"))
                .version(HttpClient.Version.HTTP_1_1)
                .POST(BodyPublishers.ofByteArray(sent))
                .build();
            byte[] got = client.send(request, BodyHandlers.ofByteArray()).body();
            same += Arrays.equals(sent, got) ? 1 : 0;
        }
        System.out.println(same + " of 20 bodies are the same");
        System.exit(same == 20 ? 0 : 1);
    }
}
