import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.websocket.server.WsSci;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.simp.config.MessageBrokerRegistry;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.web.context.support.AnnotationConfigWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.socket.config.annotation.EnableWebSocketMessageBroker;
import org.springframework.web.socket.config.annotation.StompEndpointRegistry;
import org.springframework.web.socket.config.annotation.WebSocketMessageBrokerConfigurer;

/** Spring's simple broker at /ws of an embedded Tomcat, every limit of which is its default. */
public class SpringBroker {
    @Configuration
    @EnableWebSocketMessageBroker
    public static class Endpoints implements WebSocketMessageBrokerConfigurer {
        @Override
        public void registerStompEndpoints(StompEndpointRegistry registry) {
            registry.addEndpoint("/ws").setAllowedOriginPatterns("*");
        }

        @Override
        public void configureMessageBroker(MessageBrokerRegistry registry) {
            ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler();
            scheduler.setThreadNamePrefix("heart-beat-");
            scheduler.setDaemon(true);
            scheduler.initialize();
            registry.enableSimpleBroker("/topic", "/queue")
                    .setHeartbeatValue(new long[] {1000, 1000})
                    .setTaskScheduler(scheduler);
        }
    }

    /** Arguments: the address to listen at, the port, and a folder for Tomcat's own files. */
    public static void main(String[] arguments) throws Exception {
        Path folder = Files.createDirectories(Path.of(arguments[2]));
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.toString());
        tomcat.setHostname(arguments[0]);
        tomcat.setPort(Integer.parseInt(arguments[1]));
        tomcat.getConnector().setProperty("address", arguments[0]);
        Context context = tomcat.addContext("", new File(folder.toString()).getAbsolutePath());
        context.addServletContainerInitializer(new WsSci(), null);
        AnnotationConfigWebApplicationContext spring = new AnnotationConfigWebApplicationContext();
        spring.register(Endpoints.class);
        Tomcat.addServlet(context, "spring", new DispatcherServlet(spring)).setLoadOnStartup(1);
        context.addServletMappingDecoded("/", "spring");
        tomcat.start();
        tomcat.getServer().await();
    }
}
