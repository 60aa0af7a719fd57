// graphile-worker, with the preset of its authors' perfTest/graphile.config.js (24 jobs at once, a
// local queue of 500, batched completion), in one process. As CommonJS, which is found below
// NODE_PATH; modules are not.
const { Logger, runMigrations, runOnce } = require("graphile-worker");
const { Client } = require("pg");

const CONCURRENT_JOBS = 24;
const preset = {
  worker: {
    concurrentJobs: CONCURRENT_JOBS,
    maxPoolSize: CONCURRENT_JOBS + 1,
    localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
};
// With `upsert` as the third argument a job is one upsert, on a connection of its pool.
const COUNTED = "create table counted (id integer primary key, count integer not null)";
const UPSERT = `insert into counted values ($1, 1)
  on conflict (id) do update set count = counted.count + excluded.count`;
const ROWS = 10000;
const logger = new Logger(() => () => {}); // stdout is for the seconds

async function fill(count) {
  await runMigrations({ preset, logger });
  const client = new Client();
  await client.connect();
  await client.query(COUNTED);
  await client.query(
    `select count(*) from graphile_worker.add_jobs(array(
       select ('noop', json_build_object('seq', i), null, null, null, null, null, null)
         ::graphile_worker.job_spec
       from generate_series(1, $1::integer) as i
     ))`,
    [count],
  );
  await client.end();
}

// From the first job that begins to the last that ends, as for the other peers.
async function drain(count, kind) {
  let left = count;
  let began = 0n;
  let ended = 0n;
  const noop = async ({ seq }, helpers) => {
    if (kind === "upsert") await helpers.query(UPSERT, [seq % ROWS]);
    ended = process.hrtime.bigint();
    began ||= ended;
    left -= 1;
  };
  await runOnce({ preset, logger, noHandleSignals: true }, { noop });
  if (left) throw new Error(`${left} jobs are missing`);
  console.log(Number(ended - began) / 1e9);
}

const [command, count, kind] = process.argv.slice(2);
({ fill, drain })[command](Number(count), kind);
