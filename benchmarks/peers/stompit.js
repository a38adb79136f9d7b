// stompit, the client for Node: what a compiled runtime does with the same bytes.
'use strict';

const path = require('path');
const order = JSON.parse(process.argv[2]);
const stompit = require(path.resolve(process.argv[3], 'stompit'));

const BODY = Buffer.from(process.argv[4], 'latin1');
const now = () => Number(process.hrtime.bigint()) / 1e9;
const used = () => {
  const usage = process.cpuUsage();
  return (usage.user + usage.system) / 1e6;
};

// The same meter as order.py's.
let count = 0, goal = 1, begun = 0, started = null, over = false;
// What is to be confirmed, after a fixed number of messages, before unconfirmed ones count as sent.
let settle = null;
const step = order.scenario === 'receipts' ? 8 : 64;

function answer(result) {
  require('fs').writeSync(1, JSON.stringify(result) + '\n');
  process.exit(0);
}

function lap() {
  const at = now();
  goal = order.limit ? Math.min(count + step, order.limit) : count + step;
  if (!begun) begun = at;
  if (started === null) {
    if (at - begun >= order.warm_up) started = [at, count, used()];
    return;
  }
  if (at - started[0] < order.seconds && !(order.limit && count >= order.limit)) return;
  const finish = () => {
    const messages = count - started[1];
    answer({rate: messages / (now() - started[0]), processor: (used() - started[2]) / messages, total: count});
  };
  if (settle === null || !order.limit) finish();
  over = true;
  settle(finish);
}

function counted() {
  count += 1;
  if (count >= goal) lap();
}

function headers() {
  return {
    'destination': order.destination, 'content-type': 'application/json', 'content-length': BODY.length,
    'source': 'benchmark', 'kind': 'tick', 'unit': 'mm', 'number': String(count),
  };
}

function consume(client) {
  const ack = order.scenario === 'acknowledge' ? 'client-individual' : 'auto';
  const window = String(order.window);
  const prefetch = {
    'prefetch-count': window, 'activemq.prefetchSize': window, 'consumer-window-size': String(order.window * 1024),
  };
  const wish = {'destination': order.destination, 'ack': ack, ...(ack === 'auto' ? {} : prefetch)};
  client.subscribe(wish, (error, message) => {
    if (error) throw error;
    message.readString('utf-8', (failure, body) => {
      if (failure) throw failure;
      if (order.scenario === 'echo') {
        if (body === 'end') answer({});
        const frame = client.send({destination: order.destination, 'content-length': body.length});
        frame.end(body);
        return;
      }
      if (ack !== 'auto') client.ack(message);
      counted();
    });
  });
}

function produce(client) {
  let free = order.scenario === 'publisher' ? order.window : 1;
  const next = () => {
    free -= 1;
    const options = order.scenario === 'send' ? {} : {onReceipt: () => { free += 1; counted(); pump(); }};
    const frame = client.send(headers(), options);
    frame.write(BODY);
    frame.end(order.scenario === 'send' ? () => { free += 1; counted(); setImmediate(pump); } : pump);
  };
  const pump = () => { if (free > 0 && !over) next(); };
  if (order.scenario === 'send') {
    settle = (done) => {
      const frame = client.send(headers(), {onReceipt: done});
      frame.write(BODY);
      frame.end();
    };
  }
  pump();
}

const connectHeaders = {
  'host': order.vhost, 'login': order.login, 'passcode': order.passcode, 'heart-beat': '0,0',
};
// noDelay: it writes head and body apart, and would wait for a delayed TCP acknowledgment between them.
stompit.connect({host: order.host, port: order.port, noDelay: true, connectHeaders}, (error, client) => {
  if (error) throw error;
  client.on('error', (failure) => { throw failure; });
  (['send', 'receipts', 'publisher'].includes(order.scenario) ? produce : consume)(client);
});
