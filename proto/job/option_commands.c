/* option_commands.c: every program and every verb of `shoal`, as --help and the manual show it. */
#include "proto/job/option.h"
#include "proto/job/options.h"

#define KEY_LIST_USAGE                                                                             \
    "TABLE --keys FILE [options]\n"                                                                \
    "TABLE --field NAME --values FILE [options]\n"                                                 \
    "TABLE --field NAME --value TEXT [--value TEXT]... [options]"
#define KEY_LIST_NOTES                                                                             \
    "It goes to the servers, beside a job or without one, is in their journals and audit logs, "   \
    "and stays through restarts and moves. A checkpoint has the names of its moment. Typed "       \
    "again, "                                                                                      \
    "it changes nothing more."

const struct option_command option_commands[] = {
    {"shoal", NULL, "VERB [options]", "", NULL, options_shoal, 0},
    {"shoal local", "run a job on this machine: coordinator, servers and workers over loopback",
     "JOB.yaml [options]",
     "Runs the job with a coordinator, servers and workers on this machine and leaves "
     "DIR/report.json.",
     "Exit status: 0 done, 64 wrong usage, 65 bad data, 66 input missing, 69 service unreachable, "
     "70 internal error, 73 cannot create output, 74 I/O error, 78 bad configuration.",
     options_local, 1},
    {"shoal replay", "take a log in the order in which things happened", "JOB.yaml [options]",
     "Runs the job as `shoal local` does, its log in order of event time: windows, days, what they "
     "were before they were learnt, a checkpoint at each day's end.",
     "Under a coordinator: `shoal submit` with a section `replay` in the job file.", options_replay,
     1},
    {"shoal replay diff", "compare two replays", "RUN_A RUN_B",
     "Prints days of both, hours of days that differ, values of evaluate.by that differ most, and "
     "which tables are the same to the bit.",
     NULL, options_none, 2},
    {"shoal sweep", "run a job in variants and compare them",
     "JOB.yaml --set KEY=VALUE,VALUE [options]",
     "Runs every combination of the values as `shoal local` does, several at a time, and ends with "
     "a table, DIR/sweep.html (plot and table) and DIR/sweep.json. They are compared on the "
     "validation split, else the test split, else as they were scored before they were learnt.\n"
     "The same line with --dir runs what is not done, with further values those.",
     "Exit status: that of the first variant that failed, else 0. One that fails ends no other.",
     options_sweep, 1},
    {"shoal submit", "hand a job to a running cluster and show it until it ends",
     "JOB.yaml [options]",
     "Hands a job to a running cluster and shows it until it ends; interrupting this command "
     "leaves the job running. Jobs of different spaces run side by side; a job whose space another "
     "one uses waits for its turn.\n"
     "The workers read the input: its paths must hold on their machines.",
     "Event files for TensorBoard are the coordinator's: `tensorboard: DIR` in its configuration, "
     "for every job.",
     options_submit, 1},
    {"shoal stop", "end the job of a running cluster early", "[NUMBER] [options]",
     "Ends the running job, behind its last checkpoint where the job has checkpoint.dir; asked "
     "again, at once. Where several run, NUMBER (`shoal jobs`) says which one; it may also be that "
     "of a job that waits for its turn. Coordinator, servers and workers stay.",
     NULL, options_cluster, 1},
    {"shoal checkpoint", "make, list, check, sign, compare, restore and remove checkpoints",
     "VERB [options]", "", NULL, options_none, 0},
    {"shoal checkpoint create", "make one, of a job that goes on or that is done",
     "[NAME] [options]",
     "Makes a checkpoint of the job that runs, while it goes on, or of the tables of a space that "
     "no job uses, in the job's checkpoint.dir; returns when it is complete and prints its folder. "
     "On a fleet with several spaces --space says of which one; jobs of the others go on. Of a run "
     "that has ended coordinator and servers are started on its folder for that long. Without a "
     "name it "
     "gets a number; checkpoint.keep counts those, checkpoint.keep_named the others.",
     NULL, options_create, 1},
    {"shoal checkpoint list", "the checkpoints in a folder", "DIR [--json]",
     "The checkpoints in DIR (a job's checkpoint.dir; of a run of `shoal local` "
     "RUN_DIR/checkpoints), oldest first. One whose manifest is damaged is named as such, and the "
     "exit status is then 74; unfinished ones (*.tmp) are left out.",
     NULL, options_json, 1},
    {"shoal checkpoint verify", "read every file of one and compare checksums",
     "FOLDER [--signers FILE]",
     "Reads every file and compares its checksum. Names each damaged, missing or foreign file, and "
     "the first tablet that cannot be read because of it; the exit status is then 74. A checkpoint "
     "that passes can be restored. Says which key has signed it; with --signers it ends with 77 "
     "when that is none of them, or a file is not what was signed.",
     NULL, options_verify, 1},
    {"shoal checkpoint sign", "sign one, for those who load signed ones alone", "FOLDER --key FILE",
     "Verifies the checkpoint, then writes FOLDER/signature: hash and size of every file, and a "
     "signature (Ed25519) over them, in place of one that is there. Coordinator and servers with "
     "`checkpoint_signers: FILE` load what a key of that list has signed, and nothing else. As "
     "`checkpoint.publish: [shoal, checkpoint, sign, --key, FILE]` it signs all that a job makes.",
     NULL, options_sign, 1},
    {"shoal checkpoint diff", "what changed from one to another, by field", "FROM TO [options]",
     "FROM and TO: folders of checkpoints, or of runs that have ended. Of each table, and in it of "
     "each field: rows that came, went and changed (their weights; "
     "state is not looked at), the mean distance (2-norm) that the weights of changed rows moved, "
     "and the row that moved furthest. Fields that moved most come first. Tables are matched by "
     "name, weights by part: first-order weights, and vectors of the same dim; a part that one of "
     "the two has not is passed over.",
     NULL, options_diff, 2},
    {"shoal checkpoint restore", "go on with a job from one, at the very batch",
     "FOLDER [JOB.yaml] [options]",
     "Goes on with the job of the checkpoint, at the very batch, on a cluster whose tables are "
     "empty; without JOB.yaml with the job file that is kept in the checkpoint. Servers and "
     "workers may be more or fewer than they were. On one machine: `shoal local JOB.yaml --resume "
     "FOLDER`.",
     NULL, options_restore, 2},
    {"shoal checkpoint remove", "remove one that nothing needs", "NAME [options]",
     "Removes the checkpoint NAME (as `shoal checkpoint list` prints it) from the checkpoint.dir "
     "of "
     "the cluster's job, and prints the folder that it had. Its name goes first, the rest bit by "
     "bit. One that is read is waited for, ten minutes at most. What a job that runs goes back to "
     "stays, and so does what the command of checkpoint.publish works on or takes next: the exit "
     "status is then 77. Of a run that has ended coordinator and servers are started on its folder "
     "for that long.",
     NULL, options_remove, 1},
    {"shoal export", "write tables as npy, safetensors, tsv or csv, the network as ONNX",
     "WHERE [TABLE]... --out FOLDER [options]",
     "Writes the tables of a checkpoint, or of the folder of a run that has ended; without TABLE "
     "all of them. A row of a table is its key, its first-order weight and its vector; rows are in "
     "an order that depends on their keys alone, so exports of equal tables are equal. The network "
     "is written as tensors by name. FOLDER/export.json says which array is what; "
     "deploy/manual/export.md has the layout of each format, and of the file that --onnx adds.",
     "FOLDER is made as FOLDER.tmp and renamed when it is complete. A running job: make a "
     "checkpoint (`shoal checkpoint create`) and export that.",
     options_export, 16},
    {"shoal predict", "score an input, a line a row, by a fleet, a run or a checkpoint",
     "[JOB.yaml] --from WHERE [--in FILE] [--out FILE] [options]",
     "Writes a score for each row of the input and each label, in the input's order; the rows of a "
     "key that is not in the tables count as zeros, as in an evaluation. Without JOB.yaml the job "
     "file that lies with the tables says what input and model are; a fleet needs one.",
     "A malformed row has empty cells (NaN); more of them than data.max_bad allows end it with 65 "
     "and no file. Reads never write: it may run beside a job.",
     options_predict, 1},
    {"shoal eval", "measure an input by a fleet, a run or a checkpoint",
     "[JOB.yaml] --from WHERE [--in FILE] [options]",
     "Prints, as JSON, what stands under `test` in report.json.", NULL, options_eval, 1},
    {"shoal status", "what a cluster is doing, or how a run ended", "[options]",
     "Phase, speed, shards, workers and lanes of a running cluster, with a line for each job where "
     "several run; the report of an ended run.",
     NULL, options_status, 0},
    {"shoal top", "servers, workers and jobs on a screen that goes on", "[options]",
     "What is wrong, the job, its servers and workers with their load, and the last jobs, read "
     "from "
     "the coordinator each second. Keys: q quits; l, n, m and r sort by load, name, memory and "
     "rows; the arrows and the keys for pages scroll.",
     "Colours are left out where NO_COLOR is set. Ends with 69 when the coordinator does not "
     "answer "
     "at the start.",
     options_top, 0},
    {"shoal jobs", "the jobs of a cluster, and how they ended", "[options]",
     "The last hundred jobs that ended, those that run, and those that wait for their turn: "
     "number, name, state (submitted, running, finished, failed, stopped), begin and end in UTC, "
     "model, examples, newest figures, and why a job failed. `shoal report --coordinator EP "
     "NUMBER` shows the report of one that "
     "has ended.",
     NULL, options_cluster_json, 0},
    {"shoal trace", "the way of a batch through worker and shards, with times",
     "[RUN [LANE BATCH]] [options]\n--every N [options]",
     "Shows where the time of a batch went, from the start of its read to the last acknowledgement "
     "of its push: its stages at the worker, and each shard's share of its pull and push. Without "
     "LANE BATCH it lists the traced batches of RUN, the newest last; without RUN those of the job "
     "that was traced last. No batch is traced until --every says so; a running job need not stop. "
     "The coordinator keeps the newest 512, each shard its share of the newest 4096 requests, in "
     "memory.",
     "A stage's ms count once; `beside` is the part of it in which the lane computed other "
     "batches.",
     options_trace, 3},
    {"shoal doctor", "what is wrong with this machine, a daemon's file or a cluster",
     "[--config FILE] [--bundle FILE] [options]\n--cluster [options]",
     "Checks libraries, limits, ports, disk, memory, pages, clock, keys, names, GPU, processor, "
     "crash reports and units; each finding says what to do. With --cluster: each shard's server, "
     "tablets, rows and copies, the coordinator's problems, and what does not fit (versions, "
     "clocks, budgets, room, the map). Ends with 0 when nothing is wrong, else with 69; --bundle "
     "ends with 0 when the file is made.",
     NULL, options_doctor, 0},
    {"shoal digest", "rows and digest of each table", "[TABLE] [options]",
     "Rows and digest of each table: XXH3 over the tablets in order, each over its rows (weights "
     "and "
     "optimizer state) sorted by key. Equal digests mean equal tables, bit for bit.",
     NULL, options_digest, 1},
    {"shoal tables", "what is in the tables, what a rule would keep, what a log will need",
     "[TABLE] [options]\nTABLE --what-if RULE=VALUE [--what-if ...] [options]\n"
     "[TABLE] --heat [options]\n"
     "--sample JOB.yaml [--share P] [--json]",
     "Rows and bytes by field and tier, histograms of weight norms, and, where rows have "
     "statistics, of shows and ages. Where the servers hold the tables of several spaces it lists "
     "the spaces, and --space NAME shows the tables of one.",
     NULL, options_tables, 1},
    {"shoal inspect", "one row: weights, optimizer state, statistics, tablet, shard",
     "TABLE KEY [options]\nTABLE --field NAME --value TEXT [options]",
     "One row: weights, optimizer state, statistics, tablet, shard, tier. KEY is a row's key "
     "(0x... or decimal), or FIELD:VALUE. A field is named as its column is (Criteo: C1 to C26), "
     "or by its number, which the tables gave it (`shoal tables`). A value stands as it does in "
     "the input.",
     NULL, options_inspect, 2},
    {"shoal blame", "which pushes changed a row, computed by whom, from which rows of the input",
     "TABLE KEY [options]\nTABLE --field NAME --value TEXT [options]",
     "The pushes that changed a row, newest first: event time, lane and batch, the worker that "
     "computed it, the positions of the epoch's order that it read, and the norm of the row's "
     "gradient. It looks back as far as the journal and its archive reach (journal.keep). KEY as "
     "in `shoal inspect`.",
     NULL, options_blame, 2},
    {"shoal erase", "rows gone for good, with a receipt",
     "TABLE --keys FILE [options]\n"
     "TABLE --field NAME --values FILE [options]\n"
     "TABLE --field NAME --value TEXT [--value TEXT]... [options]",
     "Erases rows for good: they go from memory, journal, archive and store of every shard, and "
     "their keys are blocked from coming back. It ends when that is done: each shard writes all "
     "its rows once. The receipt says what was done, and what else still holds the keys: cuts, and "
     "checkpoints under --checkpoints.",
     NULL, options_erase, 1},
    {"shoal keys", "keys that get a row, or none, whatever a table's rules say", "VERB [options]",
     "", NULL, options_none, 0},
    {"shoal keys allow", "these get a row at their next push, whatever admission says",
     KEY_LIST_USAGE,
     "Keys of the table get a row at their next push whatever its rules of admission say; a table "
     "with `admit: {none: true}` has rows of these keys and no other. An erased or blocked key is "
     "let in again; the row of an erased one begins anew. Ages and budgets remove the rows as they "
     "do others.",
     KEY_LIST_NOTES, options_keys, 1},
    {"shoal keys block", "these get no row", KEY_LIST_USAGE,
     "No row is made for the keys: their gradients are dropped and they count as zeros. A row that "
     "is there stays and is trained, until age or a budget removes it, or `shoal erase` does, "
     "which also blocks.",
     KEY_LIST_NOTES, options_keys, 1},
    {"shoal keys reset", "these are neither allowed nor blocked nor erased any more",
     KEY_LIST_USAGE,
     "The table's rules of admission decide on the keys again, those that were erased among them. "
     "Rows stay.",
     KEY_LIST_NOTES, options_keys, 1},
    {"shoal keys list", "the keys of a table that are allowed, blocked or erased",
     "TABLE [options]",
     "Prints a line for each key by name: the key, the name of its field (of ids with the id), and "
     "erased, blocked or allowed. --json has the same, an object a line, and the sums. Lines begin "
     "with the key, so `cut -f1` of them is a file for --keys. A job may be running.",
     NULL, options_keys_list, 1},
    {"shoal import", "rows of files into a table: pretrained vectors, another system's table",
     "TABLE FOLDER|FILE [options]\n"
     "TABLE [FILE.safetensors] --ids ARRAY --weights ARRAY [options]",
     "Puts rows of files into a table of a running cluster: a folder of `shoal export`, tsv, csv, "
     "npy or safetensors. All of it is read and checked before the first row is sent. Rows are "
     "admitted whatever the table's rule says, and count as pushed now; blocked and erased keys "
     "get none. Refused while a job trains in the table. Ended half way, it is typed again.",
     "Exit status: 65 bad files, 66 no such file, table or field, 69 a job trains in the table or "
     "the cluster does not answer, 78 fields of the export that differ.",
     options_import, 2},
    {"shoal drop",
     "a space, a table's rows, or a field that no job has any more, gone from a fleet",
     "SPACE [options]\nSPACE/TABLE [options]\n[SPACE/]TABLE/FIELD [options]",
     "SPACE: drops all rows of a space's tables from all servers, and the space itself; "
     "checkpoints of it stay. SPACE/TABLE: drops all rows of one table; the space keeps its "
     "schema, its fields and its lists of keys, and the next job finds it empty. FIELD: drops all "
     "rows of a field that the last job of the space does not have any more, and gives its number "
     "back; its TABLE is `dense` or `dense_stats` for the network's tensors, `numbers` for numeric "
     "fields, which have no rows. Jobs of other spaces may run. Prints how many rows went. Ended "
     "half way, it is typed again. Checkpoints keep the rows.",
     NULL, options_cluster, 1},
    {"shoal promote", "a copy that is not in sync leads a shard, with what it has",
     "SHARD [--accept-loss] [options]",
     "With `replicas` above 1: names the copy that has most as leader of a shard whose leader is "
     "gone, when no copy in sync is there. It says how many records may be lost, and without "
     "--accept-loss no more. Refused while the leader leads, or a copy in sync can take over.",
     NULL, options_promote, 1},
    {"shoal replace", "a server that is gone for good: others take its shards",
     "SERVER [--from CHECKPOINT] [options]",
     "With `replicas` above 1: the server does not come back. Its places in the shards' lists of "
     "copies are given up, and servers that have room copy the shards anew; a shard that it led is "
     "led by a copy in sync. Refused while the server beats, or while it leads a shard of which no "
     "copy in sync is there. Without replicas its rows are in a checkpoint of the job alone: the "
     "next server that comes with an empty data_dir takes its shards, under its name or another, "
     "and all shards go back to CHECKPOINT; no other data_dir is emptied. A job that runs goes on "
     "from there. What came after the checkpoint is lost, and counted.",
     NULL, options_replace, 1},
    {"shoal rebalance", "tablets moved so that shards carry the same", "[options]",
     "Moves tablets between shards, while jobs run, until every shard has about the same bytes of "
     "rows and the same load of pulls and pushes. Prints the plan and ends; `shoal status` shows "
     "how far it is. Pushes to a shard wait for some milliseconds while a few of its tablets "
     "move. A shard with two copies in one zone gets a copy on a server that waits in another "
     "zone; once that is in sync, one of the two gives its place up.",
     NULL, options_rebalance, 0},
    {"shoal drain", "a server emptied, so that it may be switched off", "SERVER [options]",
     "Moves all tablets of a server to the shards of the other servers, while jobs run. Prints the "
     "plan and ends; `shoal status` shows how far it is. The server must go on running until it is "
     "not listed there any more: from then on no job awaits it. With `replicas` above 1 all shards "
     "that have a copy on the server are emptied. A server that is away and leads no tablet, such "
     "as one that was added and never came, leaves at once.",
     NULL, options_drain, 1},
    {"shoal add", "servers that wait get shards", "SERVER... [options]",
     "Gives servers that were started with an empty data_dir, and wait for a place, shards of the "
     "cluster, while jobs run. They lead no tablets until `shoal rebalance` moves some there. With "
     "`replicas` above 1 name as many servers as a shard has copies.",
     NULL, options_cluster_json, OPTION_WORDS_MAX},
    {"shoal keygen", "make a key, of a daemon or a person", "FILE [options]",
     "Makes a new pair of keys: FILE (mode 0400) is its holder's, FILE.pub its public half. Prints "
     "the line for the coordinator's allow-list, or, of role sign, for a list of signers. Neither "
     "file may be there: no key is ever "
     "overwritten.",
     "A coordinator's: `keys: FILE` and `allow: LIST` in coordinator.yaml. A server's (role "
     "coord): "
     "`keys: FILE` in server.yaml. Others': --keys FILE, or SHOAL_KEYS.",
     options_keygen, 1},
    {"shoal report", "a report as a page of HTML; of a job that ended on a cluster by its number",
     "REPORT.json [--html FILE]\n--coordinator EP [NUMBER] [--html FILE] [--json]",
     "Writes the report as one page of HTML: learning curves, calibration, where the time went, "
     "tables. It opens from disk and needs no network. `shoal local` leaves one beside its "
     "report.json. With --coordinator (or SHOAL_COORDINATOR and a NUMBER) the report is that of a "
     "job that has ended there, finished, failed or stopped, as `shoal jobs` numbers it; without "
     "NUMBER of the newest one. It is printed as text, unless --html or --json says otherwise.",
     NULL, options_report, 1},
    {"shoal data", "look at your own files: what they are, and a job that trains on them",
     "FILE... [options]",
     "Finds the format of files by their contents, shows rows, label rate and each column with its "
     "use, coverage, values and examples, and proposes a job: `shoal data --job job.yaml FILES`, "
     "then `shoal local job.yaml`. A folder stands for its files, - for standard input. Files "
     "called train, valid and test, or alike, become those parts.",
     "Each choice is told with its reason, and what is not sure is called so: read it. Estimates "
     "begin with ~.",
     options_data, OPTION_WORDS_MAX},
    {"shoal convert", "write a log's parsed examples to an event file",
     "JOB.yaml --out FILE [options]\n--check FILE",
     "Writes the input of a split as one event file, in its order: columns in packed blocks, with "
     "sums, for `data.format: events`.",
     "A job may read it whose fields, their numbers and their types are the file's.",
     options_convert, 1},
    {"shoal synth", "write a made-up click log whose best possible AUC is known",
     "--out FILE [options]",
     "Writes a made-up click log, drawn from a known teacher, and FILE.teacher.json with the AUC "
     "and logloss of the teacher: the best that a model can reach on it.",
     "criteo: label, 13 integers, 26 categories, tabs.\n"
     "sequence: csv, label,user,item,history; history is 4 to 20 items, \"a|b|c\", the latest "
     "last; a click is likely when the item is of the hidden class of one of the last 8.\n"
     "tasks: csv, click,buy and eight categories; who buys has clicked.",
     options_synth, 0},
    {"shoal bench", "measure pull, push, recovery and training on this machine", "[options]",
     "Measures pull and push of 8,192 random keys (dim 16, AdaGrad, one server, one client, tcp "
     "loopback), recovery and restoring of such a table, and training of DeepFM on a synthetic "
     "log with server and worker on this machine.",
     NULL, options_bench, 0},
    {"shoal-server", NULL, "[--config FILE] [--set KEY=VALUE]... [--check]",
     "Hosts shards of embedding tables.", NULL, options_server, 0},
    {"shoal-coordinator", NULL, "[--config FILE] [--set KEY=VALUE]... [--check]",
     "Knows servers and workers, deals tablets, lanes and tasks, keeps the best epoch, writes the "
     "report.",
     NULL, options_coordinator, 0},
    {"shoal-worker", NULL,
     "run [--config WORKER.yaml | --instance NAME] [--set KEY=VALUE]... [--check]\n"
     "train|replay --coordinator EP [options]\n"
     "eval --coordinator EP --config JOB.yaml [--split train|valid|test] [options]\n"
     "predict --coordinator EP --config JOB.yaml [--in FILE] [--out FILE] [options]\n"
     "fields --config JOB.yaml [--field NAME --value TEXT]\n"
     "count --config JOB.yaml [--share P]\n"
     "check --config JOB.yaml\n"
     "values --config JOB.yaml --report REPORT.json\n"
     "convert --config JOB.yaml --out FILE [--split train|valid|test] | --check FILE\n"
     "data --in FILE... [--label NAME] [--rows N] [--job FILE] [--json]",
     "run: works on the lanes of each job of the coordinator, and waits between jobs; a unit's.\n"
     "train: joins the job of the coordinator and works on its lanes until the job is over.\n"
     "replay: as train, of a job with a section `replay` alone.\n"
     "eval: scores a split with the tables as the servers have them now and prints one JSON "
     "object.\n"
     "predict: a score for each row of the input and each label, in its order; reads never write, "
     "so it may run beside a job.\n"
     "fields: prints the job's fields, and the key of a value in one of them, as one JSON object; "
     "needs no cluster.\n"
     "count: counts the keys of the training input, or of a share of it, and prints one JSON "
     "object; needs no cluster.\n"
     "check: whether all files of the input can be read, and columns fit the training input's "
     "first "
     "line; needs no cluster.\n"
     "values: the report with the values of evaluate.by beside their hashes, as `shoal local` "
     "leaves "
     "it; needs no cluster.\n"
     "convert, data: as `shoal convert` and `shoal data`.",
     NULL, options_worker, 2},
    {0},
};
