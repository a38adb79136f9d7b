import ${jms}.Connection;
import ${jms}.ConnectionFactory;
import ${jms}.Destination;
import ${jms}.Message;
import ${jms}.MessageProducer;
import ${jms}.Session;
import ${jms}.TextMessage;

/**
 * A service as JMS has them: it answers each message of a queue to its JMSReplyTo, under its JMSCorrelationID.
 *
 * <p>Arguments: the class of the connection factory, the broker's URL, user, password, and the queue. It says "ready" when
 * it listens, and then one line for each request: the type of its message.
 */
public class JmsResponder {
    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory =
                (ConnectionFactory) Class.forName(arguments[0]).getConstructor(String.class).newInstance(arguments[1]);
        try (Connection connection = factory.createConnection(arguments[2], arguments[3])) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            var requests = session.createConsumer(session.createQueue(arguments[4]));
            connection.start();
            System.out.println("ready");
            while (true) {
                Message request = requests.receive();
                boolean isText = request instanceof TextMessage;
                System.out.println((isText ? "TextMessage" : request.getClass().getSimpleName()) + " " + request.getJMSReplyTo());
                if (request.getJMSReplyTo() == null) {
                    continue;
                }
                // A NUL, which JMS allows in a text, is asked for by its escape.
                String answer = "echo: " + (isText ? ((TextMessage) request).getText() : "").replace("\\0", "\0");
                Message reply = session.createTextMessage(answer);
                reply.setJMSCorrelationID(request.getJMSCorrelationID());
                try (MessageProducer producer = session.createProducer(request.getJMSReplyTo())) {
                    producer.send(reply);
                }
            }
        }
    }
}
