// A server that sends back what it gets, in a process of its own, and a client with several connections.
const http = require('http');
const crypto = require('crypto');
const { fork } = require('child_process');
const fs = require('fs');

const PORT = 8081;
const HOST = '10.9.9.1';

function serve() {
  const server = http.createServer((request, response) => request.pipe(response));
  server.listen(PORT, HOST, () => process.send('listening'));
}

function exchange(agent, size) {
  const sent = crypto.randomBytes(size);
  return new Promise((resolve, reject) => {
    const options = { host: HOST, port: PORT, method: 'POST', agent };
    const request = http.request(options, (response) => {
      const got = [];
      response.on('data', (part) => got.push(part));
      response.on('end', () => resolve(sent.equals(Buffer.concat(got))));
    });
    request.on('error', reject);
    request.end(sent);
  });
}

async function ask(server) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  const exchanges = [];
  for (let i = 0; i < 20; i++) exchanges.push(exchange(agent, [1, 1000, 100000, 1000000][i % 4]));
  const same = (await Promise.all(exchanges)).filter(Boolean).length;
  console.log(`${same} of 20 bodies are the same`);
  agent.destroy();
  server.kill();
}

if (process.argv[2] === 'serve') {
  serve();
} else {
  fs.writeFileSync('node.js', process.env.PROGRAM);
  const server = fork('node.js', ['serve']);
  server.on('message', () => ask(server));
}
