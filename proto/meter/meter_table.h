/* meter_table.h: every metric of the daemons, one row each: the contract with Prometheus, rules and
 * dashboards. The exposition (meter_text.h), the manual's table and the tests are made from it.
 *
 * X(ID, TYPE, NAME, UNIT, LABELS, OF, HELP)
 *     NAME    as in Prometheus, without _total and _info, which the exposition adds. It ends in the
 *             UNIT, where there is one. A histogram has the bounds of meter_bound
 *     LABELS  with commas, in the order of meter_put's values. Each has a bound that the fleet's
 *             size sets: no key, no address, no text of a peer but its name
 *     OF      which daemons have it: s server, c coordinator, w worker
 * Names are permanent: rules of other teams have them. */
#ifndef PROTO_METER_METER_TABLE_H
#define PROTO_METER_METER_TABLE_H

/* clang-format off */
#define METER_MAP(X) \
    /* the process */ \
    X(BUILD, INFO, "shoal_build", "", "program,version", "scw", \
      "The program and its version") \
    X(CPU, COUNTER, "process_cpu_seconds", "seconds", "", "scw", \
      "Processor time of all threads, user and system") \
    X(RSS, GAUGE, "process_resident_memory_bytes", "bytes", "", "scw", \
      "Resident memory") \
    X(MEMORY_LIMIT, GAUGE, "shoal_process_memory_limit_bytes", "bytes", "", "scw", \
      "What the process may take: the machine's memory, or a lower limit of its control groups") \
    X(START_TIME, GAUGE, "process_start_time_seconds", "seconds", "", "scw", \
      "When the process started, in seconds since 1970") \
    X(OPEN_FDS, GAUGE, "process_open_fds", "", "", "scw", \
      "Open files and connections") \
    X(MAX_FDS, GAUGE, "process_max_fds", "", "", "scw", \
      "Files and connections that the process may open") \
    X(LOG_DROPPED, COUNTER, "shoal_log_lines_left_out", "", "", "scw", \
      "Lines that the bounds of the log left out") \
    X(LOOP_SILENT, GAUGE, "shoal_loop_silent_seconds", "seconds", "loop", "scw", \
      "Since the loop last made progress; from 5 on it is not ready") \
    X(READY, GAUGE, "shoal_ready", "", "loop", "scw", \
      "1 where /readyz would answer 200 for this loop alone") \
    X(LEFT_OUT, GAUGE, "shoal_series_left_out", "", "", "scw", \
      "Series that are not shown, since a daemon shows 5,000 at most") \
    /* a shard: requests */ \
    X(REQUESTS, COUNTER, "shoal_requests", "", "shard,op", "s", \
      "Pulls and pushes answered, op: pull, push") \
    X(KEYS, COUNTER, "shoal_keys", "", "shard,op", "s", \
      "Keys of these; a push that was applied before counts none; op echo: rows back with pushes") \
    X(VALUE_BYTES, COUNTER, "shoal_value_bytes", "bytes", "shard,op", "s", \
      "Bytes of weights in answers, and of gradients in pushes") \
    X(REQUEST_SECONDS, HISTOGRAM, "shoal_request_seconds", "seconds", "shard,op", "s", \
      "From the arrival of a pull or a push to its answer, with what it waited for") \
    X(WAIT_SECONDS, COUNTER, "shoal_pull_wait_seconds", "seconds", "shard", "s", \
      "Time that lanes' pulls have waited for clocks and rows, summed") \
    X(COLD_REQUESTS, COUNTER, "shoal_cold_requests", "", "shard,op", "s", \
      "Requests that waited for rows from the store") \
    X(REFUSALS, COUNTER, "shoal_refusals", "", "shard,reason", "s", \
      "Requests refused, reason: the error's name, as BUSY, NO_SPACE, NOT_FINITE") \
    X(SKIPPED, COUNTER, "shoal_pushes_skipped", "", "shard", "s", \
      "Pushes answered without a change: they were applied before") \
    X(MALFORMED, COUNTER, "shoal_malformed_messages", "", "shard", "s", \
      "Messages that could not be decoded") \
    X(UNSENT, COUNTER, "shoal_unsent_replies", "", "shard", "s", \
      "Replies dropped, for the peer's queue was full or there was no memory") \
    X(STALENESS, HISTOGRAM, "shoal_staleness_clocks", "clocks", "shard", "s", \
      "Pulls of lanes by how many clocks their rows may lack") \
    X(AGED_PUSHES, COUNTER, "shoal_aged_pushes", "", "shard,space,table", "s", \
      "Pushes with keys whose age in steps is known") \
    X(AGE, COUNTER, "shoal_gradient_age_steps", "steps", "shard,space,table", "s", \
      "Their ages, summed: batches of all lanes that the table had applied since their rows") \
    X(WAITING, GAUGE, "shoal_waiting_requests", "", "shard,queue", "s", \
      "Requests that wait, queue: clock (pulls), bsp (pushes of a clock), parked (rows or room)") \
    X(POOL_USED, GAUGE, "shoal_pool_requests", "", "shard,op", "s", \
      "Requests in the shard's bounded pool") \
    X(POOL_BYTES, GAUGE, "shoal_pool_bytes", "bytes", "shard,op", "s", \
      "Bytes of these") \
    X(POOL_LIMIT, GAUGE, "shoal_pool_limit_bytes", "bytes", "shard,op", "s", \
      "Bytes that the pool takes before it refuses with BUSY") \
    /* a shard: rows */ \
    X(ROWS, GAUGE, "shoal_rows", "", "shard,space,table,tier", "s", \
      "Rows, tier: memory, store") \
    X(ROW_BYTES, GAUGE, "shoal_row_bytes", "bytes", "shard,space,table,tier", "s", \
      "Bytes of these rows: key, weights and optimizer's state") \
    X(TABLE_KEYS, COUNTER, "shoal_table_keys", "", "shard,space,table,rule", "s", \
      "Keys by rule: admitted, not_admitted, blocked, clipped, aged, expired, evicted") \
    X(TABLETS, GAUGE, "shoal_tablets", "", "shard,state", "s", \
      "Tablets, state: led, dirty (not written yet), awaited (by the start), away (of these)") \
    X(MAP_EPOCH, GAUGE, "shoal_map_epoch", "", "shard", "s", \
      "The map that the shard goes by") \
    X(FETCHED, COUNTER, "shoal_rows_fetched", "", "shard", "s", \
      "Rows that came back from the store") \
    X(EVICTED, COUNTER, "shoal_rows_evicted", "", "shard", "s", \
      "Rows that moved to the store") \
    /* a shard: budgets, journal, copies */ \
    X(MEMORY, GAUGE, "shoal_memory_bytes", "bytes", "shard", "s", \
      "What counts against the shard's part of `memory`") \
    X(MEMORY_BUDGET, GAUGE, "shoal_memory_budget_bytes", "bytes", "shard", "s", \
      "The shard's part of `memory`") \
    X(MEMORY_SHORT, GAUGE, "shoal_memory_short", "", "shard", "s", \
      "1: the last push was refused for lack of memory") \
    X(SPACE_MEMORY, GAUGE, "shoal_space_memory_bytes", "bytes", "shard,space", "s", \
      "Memory of a space's rows, where there are several spaces") \
    X(SPACE_MEMORY_SHARE, GAUGE, "shoal_space_memory_share_bytes", "bytes", "shard,space", "s", \
      "The space's share of the memory, by `memory` of coordinator.yaml; 0: memory has no bound") \
    X(SPACE_WAITS, COUNTER, "shoal_space_held_pushes", "", "shard,space,result", "s", \
      "Pushes that a space's share put off or refused, result: waits, refused") \
    X(DISK, GAUGE, "shoal_disk_bytes", "bytes", "shard", "s", \
      "Bytes of the shard's folder and of parts of checkpoints beside it") \
    X(DISK_BUDGET, GAUGE, "shoal_disk_budget_bytes", "bytes", "shard", "s", \
      "The shard's part of `disk`; 0: no bound") \
    X(DISK_FREE, GAUGE, "shoal_disk_free_bytes", "bytes", "shard", "s", \
      "Free bytes of the file system with the shard's folder") \
    X(DISK_FREE_LEAST, GAUGE, "shoal_disk_free_least_bytes", "bytes", "shard", "s", \
      "With fewer free bytes pushes are refused: `disk_free`, or its default for this disk") \
    X(DISK_SHORT, GAUGE, "shoal_disk_short", "", "shard", "s", \
      "1: pushes are refused for lack of disk") \
    X(JOURNAL, GAUGE, "shoal_journal_bytes", "bytes", "shard", "s", \
      "Bytes of journal that a start would read") \
    X(JOURNAL_WRITTEN, COUNTER, "shoal_journal_written_bytes", "bytes", "shard", "s", \
      "Bytes written to the journal") \
    X(IMAGES_WRITTEN, COUNTER, "shoal_images_written_bytes", "bytes", "shard", "s", \
      "Bytes of rows written to the store") \
    X(SEQUENCE, COUNTER, "shoal_journal_records", "", "shard", "s", \
      "Records in the journal since the folder was made") \
    X(UNFLUSHED, GAUGE, "shoal_journal_lag_records", "", "shard", "s", \
      "Records whose rows are not in the store yet: what a start repeats") \
    X(UNSYNCED, GAUGE, "shoal_journal_unsynced_records", "", "shard", "s", \
      "Records that a loss of power could take") \
    X(FLUSH_AGE, GAUGE, "shoal_flush_age_seconds", "seconds", "shard", "s", \
      "For how long rows have waited for a write to the store; 0: none wait") \
    X(WRITE_SECONDS, HISTOGRAM, "shoal_journal_write_seconds", "seconds", "shard", "s", \
      "Writes of the pushes of a drain to the journal, in the shard's loop") \
    X(SYNC_SECONDS, HISTOGRAM, "shoal_journal_sync_seconds", "seconds", "shard", "s", \
      "Syncs of the journal beside the loop") \
    X(SYNC_AGE, GAUGE, "shoal_journal_sync_age_seconds", "seconds", "shard", "s", \
      "For how long the sync at hand has run; 0: none does, or for less than a second") \
    X(SEGMENTS, GAUGE, "shoal_journal_segments", "", "shard", "s", \
      "Files of the journal with records that a start may read") \
    X(STORE_BYTES, GAUGE, "shoal_store_bytes", "bytes", "shard,part", "s", \
      "The row store's files, part: values (written once), tables (merged at times)") \
    X(STORE_MEMORY, GAUGE, "shoal_store_memory_bytes", "bytes", "shard,part", "s", \
      "The row store's memory, part: unwritten, readers (indexes and filters of its files)") \
    X(STORE_SECONDS, HISTOGRAM, "shoal_store_write_seconds", "seconds", "shard", "s", \
      "Writes to the row store of a batch of rows, with what they wait for compactions") \
    X(STORE_WORK, GAUGE, "shoal_store_work", "", "shard,kind", "s", \
      "Work of the row store that runs now, kind: flush, compaction") \
    X(STORE_PENDING, GAUGE, "shoal_store_pending_bytes", "bytes", "shard", "s", \
      "Estimate of what compactions have still to rewrite") \
    X(STORE_SLOWED, GAUGE, "shoal_store_slowed", "", "shard", "s", \
      "1: the row store slows its writes down until compactions have caught up") \
    X(STORE_STOPPED, GAUGE, "shoal_store_stopped", "", "shard", "s", \
      "1: its writes wait for compactions") \
    X(COPY_LAG, GAUGE, "shoal_replica_lag_records", "", "shard,place", "s", \
      "Of a leader: records that the follower at this place does not have") \
    X(IN_SYNC, GAUGE, "shoal_replicas_in_sync", "", "shard", "s", \
      "Of a leader: copies in sync, itself counted") \
    /* the coordinator: the fleet */ \
    X(LEADS, GAUGE, "shoal_coordinator_leads", "", "", "c", \
      "1: it leads; 0: it stands by") \
    X(COORD_STORE, GAUGE, "shoal_coordinator_store_bytes", "bytes", "part", "c", \
      "Its own store, part: values (keys and values), kept (what its files, or ZooKeeper, take)") \
    X(COORD_STORE_SECONDS, HISTOGRAM, "shoal_coordinator_store_write_seconds", "seconds", "", "c", \
      "Transactions of its store until they are complete; answers wait for them") \
    X(COORD_STORE_STANDS, GAUGE, "shoal_coordinator_store_stands_seconds", "seconds", "", "c", \
      "For how long its store has completed none of those under way; 0: none is") \
    X(COORD_STORE_LOSSES, COUNTER, "shoal_coordinator_store_losses", "", "", "c", \
      "Times that it lost its store, to a failure or another coordinator, and began anew") \
    X(SHARDS_WANTED, GAUGE, "shoal_shards_wanted", "", "", "c", \
      "Shards of the cluster") \
    X(SHARD_READY, GAUGE, "shoal_shard_ready", "", "shard,server", "c", \
      "1: the shard, by its number, was heard within the lease and has its rows") \
    X(SHARD_SILENT, GAUGE, "shoal_shard_silent_seconds", "seconds", "shard,server", "c", \
      "Since the shard's copy on that server was last heard") \
    X(COPIES, GAUGE, "shoal_copies", "", "shard,state", "c", \
      "With replicas: copies of a shard, state: wanted, in_sync") \
    X(REFUSED_SHARDS, GAUGE, "shoal_refused_shards", "", "", "c", \
      "Shards that beat and are not taken, without those of drained servers") \
    X(REFUSED_KEYS, GAUGE, "shoal_refused_keys", "", "", "c", \
      "Keys that were shown in the last 15 s and are not in the allow-list, 16 at most") \
    X(COORD_REFUSALS, COUNTER, "shoal_coordinator_refusals", "", "reason", "c", \
      "Requests that it refused, reason: the error's name, as DENIED, AGAIN") \
    X(LEASE, GAUGE, "shoal_lease_seconds", "seconds", "", "c", \
      "After this silence a shard or a worker counts as gone") \
    X(PROBLEMS, GAUGE, "shoal_problems", "", "", "c", \
      "Sentences on what is wrong, as `shoal status` shows them") \
    X(PROBLEM, GAUGE, "shoal_problem_seconds", "seconds", "problem,of", "c", \
      "Since the problem was found, by its kind and the server, worker, job or shard; 64 at most") \
    X(IDLE, GAUGE, "shoal_idle_workers", "", "", "c", \
      "Workers that asked to join and are part of no job") \
    X(QUEUED, GAUGE, "shoal_queued_jobs", "", "", "c", "Jobs that wait for their turn") \
    X(MOVES_LEFT, GAUGE, "shoal_moves_left_tablets", "tablets", "", "c", \
      "Tablets that the plan of moves has still to move") \
    X(MOVED, COUNTER, "shoal_moves_done_tablets", "tablets", "", "c", \
      "Tablets of the plan at hand that have moved; 0 when a plan begins") \
    /* the coordinator: the job of each slot */ \
    X(JOB_RUNNING, GAUGE, "shoal_job_running", "", "space,job", "c", \
      "1: the job is submitted and not over") \
    X(JOB_PHASE, GAUGE, "shoal_job_phase", "", "space,job,phase", "c", \
      "1 for the job's phase, as `shoal status` names it") \
    X(JOB_WAITS, GAUGE, "shoal_job_waits", "", "space,job", "c", \
      "1: the job waits; `shoal status` says what for") \
    X(JOB_STANDS, GAUGE, "shoal_job_stands_seconds", "seconds", "space,job", "c", \
      "For how long no worker has made progress; 0: some do, or there is no work now") \
    X(EPOCH, GAUGE, "shoal_job_epoch", "", "space,job", "c", \
      "The epoch at hand") \
    X(JOB_EXAMPLES, GAUGE, "shoal_job_examples", "", "space,job", "c", \
      "Examples of finished tasks; fewer after the job has gone back to a cut") \
    X(JOB_RATE, GAUGE, "shoal_job_examples_per_second", "", "space,job", "c", \
      "Examples a second, by the beats of the workers") \
    X(AUC, GAUGE, "shoal_job_auc_ratio", "ratio", "space,job,of", "c", \
      "AUC, of: train (of predictions before they were learnt, the newest tasks), valid") \
    X(LOGLOSS, GAUGE, "shoal_job_logloss", "", "space,job,of", "c", \
      "Logloss, of: train, valid") \
    X(RMSE, GAUGE, "shoal_job_rmse", "", "space,job,of", "c", \
      "Root of the mean squared error of labels that are numbers, of: train, valid") \
    X(MAE, GAUGE, "shoal_job_mae", "", "space,job,of", "c", \
      "Mean absolute error of labels that are numbers, of: train, valid") \
    X(CALIBRATION, GAUGE, "shoal_job_calibration_ratio", "ratio", "space,job,of", "c", \
      "Mean prediction by mean label, of: train, valid") \
    X(LANES, GAUGE, "shoal_job_lanes", "", "space,job,state", "c", \
      "Lanes, state: free, granting, held, closing") \
    X(LANE_BATCHES, GAUGE, "shoal_lane_batches", "", "space,job,lane", "c", \
      "Batches of a lane that are done, as far as the coordinator knows; fewer after going back") \
    X(LANE_BEHIND, GAUGE, "shoal_lane_behind_clocks", "clocks", "space,job,lane", "c", \
      "Batches that a held lane is behind the lane that is furthest on") \
    X(TASKS, GAUGE, "shoal_job_tasks", "", "space,job,state", "c", \
      "Tasks of the epoch, state: planned, given, done") \
    X(STREAM_BEHIND, GAUGE, "shoal_job_stream_behind_messages", "messages", "space,job,stream", \
      "c", \
      "Kafka: offsets that no round has taken, of the first 64 partitions; stream: other: of the " \
      "rest") \
    X(WORKERS, GAUGE, "shoal_job_workers", "", "space,job", "c", \
      "Workers of the job") \
    X(WORKERS_WANTED, GAUGE, "shoal_job_workers_wanted", "", "space,job", "c", \
      "Workers that the job asked for") \
    X(WORKER_SILENT, GAUGE, "shoal_job_worker_silent_seconds", "seconds", "space,job", "c", \
      "Since the worker that has been silent longest was heard; its lease is shoal_lease_seconds") \
    X(WORKER_DEATHS, COUNTER, "shoal_job_worker_deaths", "", "space,job", "c", \
      "Workers whose lease ran out") \
    X(JOB_RESTARTS, COUNTER, "shoal_job_shard_restarts", "", "space,job", "c", \
      "Shards that started again while the job ran") \
    X(JOB_REFUSED, GAUGE, "shoal_job_refused_batches", "", "space,job", "c", \
      "Batches with a push that was refused for its values; fewer after going back") \
    X(JOB_BAD_LINES, COUNTER, "shoal_job_bad_lines", "", "space,job", "c", \
      "Malformed lines that workers have read, those of dead workers too") \
    X(JOB_LANE_SECONDS, COUNTER, "shoal_job_lane_seconds", "seconds", "space,job,stage", "c", \
      "Time of all lanes by what they waited for: read, pull, compute, push, ring, wait") \
    X(RING, GAUGE, "shoal_ring_number", "", "space,job", "c", \
      "Number of the ring of workers that keep the network (train.dense: allreduce)") \
    X(RING_MEMBERS, GAUGE, "shoal_ring_members", "", "space,job", "c", \
      "Its workers; 0 while it is being formed") \
    X(RING_STEPS, COUNTER, "shoal_ring_steps", "", "space,job", "c", \
      "Steps of the network, each counted at each worker") \
    X(RING_BYTES, COUNTER, "shoal_ring_bytes", "bytes", "space,job", "c", \
      "Bytes of sums that workers have sent to each other") \
    X(RING_AGE, GAUGE, "shoal_ring_published_age_seconds", "seconds", "space,job", "c", \
      "Age of the network in the tables of the servers") \
    X(CHECKPOINTS, COUNTER, "shoal_checkpoints", "", "space,job,result", "c", \
      "Checkpoints, result: made, failed") \
    X(CHECKPOINT_AGE, GAUGE, "shoal_checkpoint_age_seconds", "seconds", "space,job", "c", \
      "Age of the newest checkpoint") \
    X(CHECKPOINT_SINCE, GAUGE, "shoal_checkpoint_since_seconds", "seconds", "space,job", "c", \
      "While a job trains that makes some by itself: since its newest, or since it began") \
    X(CHECKPOINT_EVERY, GAUGE, "shoal_checkpoint_every_seconds", "seconds", "space,job", "c", \
      "checkpoint.every_minutes of the job; 0: not by time") \
    X(CHECKPOINT_SECONDS, GAUGE, "shoal_checkpoint_duration_seconds", "seconds", "space,job,part", \
      "c", "What the newest checkpoint took, part: all, held (while pushes waited)") \
    X(CHECKPOINT_BYTES, GAUGE, "shoal_checkpoint_bytes", "bytes", "space,job", "c", \
      "Bytes of the newest checkpoint") \
    /* a worker */ \
    X(EXAMPLES, COUNTER, "shoal_worker_examples", "", "space,job", "w", \
      "Good lines computed for training since it joined") \
    X(BATCHES, COUNTER, "shoal_worker_batches", "", "space,job", "w", \
      "Training batches that all shards acknowledged") \
    X(BATCHES_SKIPPED, COUNTER, "shoal_worker_skipped_batches", "", "space,job", "w", \
      "Batches that some tablets had already") \
    X(BAD_LINES, COUNTER, "shoal_worker_bad_lines", "", "space,job", "w", \
      "Malformed lines") \
    X(WORKER_KEYS, COUNTER, "shoal_worker_keys", "", "space,job,op", "w", \
      "Keys pulled, pushed, and whose rows came with a push, op: pull, push, echo") \
    X(OVERFLOWS, COUNTER, "shoal_worker_skipped_steps", "", "space,job", "w", \
      "Batches whose gradient overflowed (precision fp16)") \
    X(LANES_HELD, GAUGE, "shoal_worker_lanes", "", "space,job", "w", \
      "Lanes that it holds") \
    X(LANE_SECONDS, COUNTER, "shoal_worker_lane_seconds", "seconds", "space,job,stage", "w", \
      "Time of its lanes by what they waited for: read, pull, compute, push, ring, wait") \
    X(BUSY_SECONDS, COUNTER, "shoal_worker_busy_seconds", "seconds", "space,job,stage", "w", \
      "Work on batches, which overlap, by stage: file, parse, pull, compute, push") \
    X(STEP_SECONDS, HISTOGRAM, "shoal_worker_step_seconds", "seconds", "space,job", "w", \
      "Forward and backward of a batch, on the processor or the device") \
    X(GRADIENT_AGE, HISTOGRAM, "shoal_worker_gradient_age_seconds", "seconds", "space,job", "w", \
      "Training batches by staleness in time: from the answer that brought the first of their " \
      "rows to that to their push") \
    X(LANE_AGE, GAUGE, "shoal_lane_gradient_age_seconds", "seconds", "space,job,lane", "w", \
      "The same of the newest batch of each lane that it holds") \
    X(DEVICE_MEMORY, GAUGE, "shoal_device_memory_bytes", "bytes", "", "w", \
      "Memory of the GPU that all its processes have taken; not told without a GPU") \
    X(DEVICE_MEMORY_LIMIT, GAUGE, "shoal_device_memory_limit_bytes", "bytes", "", "w", \
      "Memory of the GPU") \
    X(WORKER_ABSENCE, GAUGE, "shoal_worker_unanswered_seconds", "seconds", "shard", "w", \
      "For how long the shard, by its number, has owed an answer; 0: it owes none") \
    X(ROUND_TRIP, GAUGE, "shoal_worker_round_trip_seconds", "seconds", "shard", "w", \
      "How long the shard, by its number, takes to answer, smoothed")
/* clang-format on */

#endif
