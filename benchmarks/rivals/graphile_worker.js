// The part of graphile-worker in `python -m benchmarks.rivals`. Finds its server by PGHOST and the like.
//
//   node graphile_worker.js migrate | one SECONDS | bulk JOBS [TASK] | work
//     | send JOBS MILLISECONDS [TASK BATCH]
//
// Prints one line of JSON at the end; `work` prints "ready" first, and ends at SIGTERM.
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Client } = require("pg");

const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;
const connectionString = `postgres://${PGUSER}@localhost:${PGPORT}/${PGDATABASE}?host=${PGHOST}`;
// Its fastest documented settings: a local queue, and batches without a delay.
const worker = {
  connectionString,
  maxPoolSize: 10,
  concurrentJobs: 24,
  pollInterval: 1000,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  getQueueNameBatchDelay: 0,
};
// For single jobs it is faster without its local queue.
const single = { connectionString, maxPoolSize: 10, concurrentJobs: 24 };
// At rest one poll then serves all that may run at once.
const rest = { ...single, localQueue: { size: 500 } };
const slotted = (kind) => ({ ...worker, concurrentJobs: Number(kind.split("_")[1]) });
const presets = { bulk: worker, single, rest };
const logger = new Logger(() => () => {});
const MANY =
  "select count(*) from graphile_worker.add_jobs(array(select json_populate_record(" +
  "null::graphile_worker.job_spec, json_build_object('identifier', $1::text, 'payload', $2::json))" +
  " from generate_series(1, $3::int)))";
const seconds = () => Number(process.hrtime.bigint()) / 1e9;

async function withTools(use) {
  const tools = await makeWorkerUtils({ preset: { worker }, logger });
  try {
    await tools.migrate();
    console.log(JSON.stringify(await use(tools)));
  } finally {
    await tools.release();
  }
}

const verbs = {
  migrate: () => withTools(async () => ({})),
  one: (limit) =>
    withTools(async (tools) => {
      const began = seconds();
      let count = 0;
      while (seconds() - began < Number(limit)) await tools.addJob("noop", { number: ++count });
      return { per_second: count / (seconds() - began) };
    }),
  bulk: (jobs, task = "noop") =>
    withTools(async (tools) => {
      const began = seconds();
      for (let first = 0; first < Number(jobs); first += 1000) {
        const specs = Array.from({ length: 1000 }, (_, place) => ({
          identifier: task,
          payload: { number: first + place },
        }));
        await tools.addJobs(specs);
      }
      return { per_second: Number(jobs) / (seconds() - began) };
    }),
  work: async (kind) => {
    let count = 0, first = null, last = null;
    const took = [], started = [];
    const taskList = {
      noop: async () => {
        last = seconds();
        first ??= last;
        count += 1;
      },
      timed: async (payload) => {
        took.push((seconds() - payload.sent) * 1000);
      },
      brief: async ({ sent }) => {
        await taskList.noop();
        if (sent) took.push((last - sent) * 1000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      },
      started: async (payload) => {
        const now = Math.round((performance.timeOrigin + performance.now()) * 1000);
        started.push([payload.client, payload.number, now]);
      },
    };
    const preset = { worker: presets[kind] ?? slotted(kind) };
    const runner = await run({ preset, logger, taskList, noHandleSignals: true });
    process.on("SIGTERM", async () => {
      await runner.stop();
      const told = JSON.stringify({ count, first, last, took, started });
      process.stdout.write(told + "\n", () => process.exit(0));
    });
    console.log("ready");
    await runner.promise;
  },
  send: async (jobs, every, task = "timed", batch = "1") => {
    const client = new Client({ connectionString });
    await client.connect();
    const began = seconds();
    for (let sent = 0; sent < Number(jobs) / Number(batch); sent += 1) {
      const early = (began - seconds()) * 1000 + sent * Number(every);
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      const payload = JSON.stringify({ sent: seconds() });
      if (batch === "1") {
        await client.query("select graphile_worker.add_job($1, $2::json)", [task, payload]);
      } else await client.query(MANY, [task, payload, Number(batch)]);
    }
    await client.end();
    console.log("{}");
  },
};

const [verb, ...given] = process.argv.slice(2);
verbs[verb](...given).catch((error) => {
  console.error(error);
  process.exit(1);
});
