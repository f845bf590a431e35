#compdef shoal shoal-server shoal-coordinator shoal-worker
# made by tests/reference.py --write from proto/job/option_commands.c.
local at=${words[1]:t}
local -a takes
while (( CURRENT > 2 )); do
    case "$at ${words[2]}" in
    ('shoal local') ;;
    ('shoal replay') ;;
    ('shoal replay diff') ;;
    ('shoal sweep') ;;
    ('shoal submit') ;;
    ('shoal stop') ;;
    ('shoal checkpoint') ;;
    ('shoal checkpoint create') ;;
    ('shoal checkpoint list') ;;
    ('shoal checkpoint verify') ;;
    ('shoal checkpoint sign') ;;
    ('shoal checkpoint diff') ;;
    ('shoal checkpoint restore') ;;
    ('shoal checkpoint remove') ;;
    ('shoal export') ;;
    ('shoal predict') ;;
    ('shoal eval') ;;
    ('shoal status') ;;
    ('shoal top') ;;
    ('shoal jobs') ;;
    ('shoal trace') ;;
    ('shoal doctor') ;;
    ('shoal digest') ;;
    ('shoal tables') ;;
    ('shoal inspect') ;;
    ('shoal blame') ;;
    ('shoal erase') ;;
    ('shoal keys') ;;
    ('shoal keys allow') ;;
    ('shoal keys block') ;;
    ('shoal keys reset') ;;
    ('shoal keys list') ;;
    ('shoal import') ;;
    ('shoal drop') ;;
    ('shoal promote') ;;
    ('shoal replace') ;;
    ('shoal rebalance') ;;
    ('shoal drain') ;;
    ('shoal add') ;;
    ('shoal keygen') ;;
    ('shoal report') ;;
    ('shoal data') ;;
    ('shoal convert') ;;
    ('shoal synth') ;;
    ('shoal bench') ;;
    (*) break ;;
    esac
    at+=" ${words[2]}"
    shift words
    (( CURRENT-- ))
done
case $at in
    ('shoal')
        takes=(
            '--help[this text]'
            '--version[print it]'
            '1:verb:((local\:"run a job on this machine: coordinator, servers and workers over loopback" replay\:"take a log in the order in which things happened" sweep\:"run a job in variants and compare them" submit\:"hand a job to a running cluster and show it until it ends" stop\:"end the job of a running cluster early" checkpoint\:"make, list, check, sign, compare, restore and remove checkpoints" export\:"write tables as npy, safetensors, tsv or csv, the network as ONNX" predict\:"score an input, a line a row, by a fleet, a run or a checkpoint" eval\:"measure an input by a fleet, a run or a checkpoint" status\:"what a cluster is doing, or how a run ended" top\:"servers, workers and jobs on a screen that goes on" jobs\:"the jobs of a cluster, and how they ended" trace\:"the way of a batch through worker and shards, with times" doctor\:"what is wrong with this machine, a daemon'\''s file or a cluster" digest\:"rows and digest of each table" tables\:"what is in the tables, what a rule would keep, what a log will need" inspect\:"one row: weights, optimizer state, statistics, tablet, shard" blame\:"which pushes changed a row, computed by whom, from which rows of the input" erase\:"rows gone for good, with a receipt" keys\:"keys that get a row, or none, whatever a table'\''s rules say" import\:"rows of files into a table: pretrained vectors, another system'\''s table" drop\:"a space, a table'\''s rows, or a field that no job has any more, gone from a fleet" promote\:"a copy that is not in sync leads a shard, with what it has" replace\:"a server that is gone for good: others take its shards" rebalance\:"tablets moved so that shards carry the same" drain\:"a server emptied, so that it may be switched off" add\:"servers that wait get shards" keygen\:"make a key, of a daemon or a person" report\:"a report as a page of HTML; of a job that ended on a cluster by its number" data\:"look at your own files: what they are, and a job that trains on them" convert\:"write a log'\''s parsed examples to an event file" synth\:"write a made-up click log whose best possible AUC is known" bench\:"measure pull, push, recovery and training on this machine"))'
        ) ;;
    ('shoal local')
        takes=(
            '--servers=[server processes]:N:'
            '--shards=[of each server, a thread each]:N:'
            '--workers=[worker processes]:N:'
            '--run-dir=[where everything of this run is kept; must be new or empty]:DIR:_files'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '*--server-set=[change a key of each server'\''s file, such as memory=4GiB]:KEY=VALUE:_files'
            '--worker=[each worker: a program with a network of its own, for model.kind: external]:COMMAND:_files'
            '--worker-io-threads=[threads that carry a worker'\''s messages]:N:'
            '--tensorboard=[write event files for TensorBoard into DIR/JOB-NUMBER]:DIR:_files'
            '--no-restart[do not start a dead server or worker again]'
            '--resume=[go on at the very batch: from a checkpoint, or the newest of a run'\''s folder; as `resume` of the job file]:WHERE:_files'
            '--start-from=[begin with the tables of a checkpoint, of the one that a run made at its end, or (`fleet`) of the servers; as `start_from` of the job file]:WHERE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal replay')
        takes=(
            '--since=[event time: 2026-03-04, 2026-03-04T05 or seconds since 1970]:TIME:_files'
            '--until=[up to this, not with it]:TIME:_files'
            '--window=[no batch is of two windows]:TIME:_files'
            '--every=[event time from one day'\''s end to the next]:TIME:_files'
            '*--leave-out=[a day, an hour, or FROM..TO that is not trained]:SPAN:_files'
            '--rewind=[from the newest checkpoint of --of in which nothing from then on is learnt]:TIME:_files'
            '--of=[folder of the replay that is rewound]:RUN:_files'
            '--servers=[server processes]:N:'
            '--shards=[of each server, a thread each]:N:'
            '--workers=[worker processes]:N:'
            '--run-dir=[where everything of this run is kept; must be new or empty]:DIR:_files'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '*--server-set=[change a key of each server'\''s file, such as memory=4GiB]:KEY=VALUE:_files'
            '--worker=[each worker: a program with a network of its own, for model.kind: external]:COMMAND:_files'
            '--worker-io-threads=[threads that carry a worker'\''s messages]:N:'
            '--tensorboard=[write event files for TensorBoard into DIR/JOB-NUMBER]:DIR:_files'
            '--no-restart[do not start a dead server or worker again]'
            '--resume=[go on at the very batch: from a checkpoint, or the newest of a run'\''s folder; as `resume` of the job file]:WHERE:_files'
            '--start-from=[begin with the tables of a checkpoint, of the one that a run made at its end, or (`fleet`) of the servers; as `start_from` of the job file]:WHERE:_files'
            '--help[this text]'
            '1:verb:((diff\:"compare two replays"))'
        ) ;;
    ('shoal replay diff')
        takes=(
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal sweep')
        takes=(
            '*--set=[of the job file; with several values, which commas part, a variant has each. A comma within brackets or quotes parts nothing: model.hidden=\[64,32\],\[128\]]:KEY=VALUE[,VALUE...]:_files'
            '--dir=[where everything is kept; one that is there is gone on with]:DIR:_files'
            '--at-once=[variants that run]:N:'
            '--metric=[by which they are ordered]:metric:(auc logloss rmse mae)'
            '--servers=[of each]:N:'
            '--workers=[of each]:N:'
            '--worker=[each worker: a program with a network of its own, for model.kind: external]:COMMAND:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal submit')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--workers=[begin when N workers have joined]:N:'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '--resume=[go on at the very batch: from a checkpoint, or the newest of a run'\''s folder; as `resume` of the job file]:WHERE:_files'
            '--start-from=[begin with the tables of a checkpoint, of the one that a run made at its end, or (`fleet`) of the servers; as `start_from` of the job file]:WHERE:_files'
            '--no-wait[return as soon as the job is taken]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal stop')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint')
        takes=(
            '--help[this text]'
            '1:verb:((create\:"make one, of a job that goes on or that is done" list\:"the checkpoints in a folder" verify\:"read every file of one and compare checksums" sign\:"sign one, for those who load signed ones alone" diff\:"what changed from one to another, by field" restore\:"go on with a job from one, at the very batch" remove\:"remove one that nothing needs"))'
        ) ;;
    ('shoal checkpoint create')
        takes=(
            '--space=[whose checkpoint: the `space` of a job file; no job of it need run]:NAME:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--run-dir=[run folder of a running `shoal local`]:DIR:_files'
            '--without=[do without these servers, which are gone for good (replicas: 1): the checkpoint has the rows of the others alone, and says everywhere what it lacks; it needs a NAME, and no job goes on from it]:SERVER[,SERVER]:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint list')
        takes=(
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint verify')
        takes=(
            '--signers=[the keys that are good, a line each: one of them must have signed all of it]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint sign')
        takes=(
            '--key=[of `shoal keygen FILE --role sign`]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint diff')
        takes=(
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint restore')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--workers=[begin when N workers have joined]:N:'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '--no-wait[return as soon as the job is taken]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal checkpoint remove')
        takes=(
            '--space=[whose checkpoint: the `space` of a job file; no job of it need run]:NAME:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--run-dir=[run folder of `shoal local`, running or ended]:DIR:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal export')
        takes=(
            '--out=[the folder that is made; must not exist]:FOLDER:_files'
            '--format=[npy: a file for each array; safetensors: one file, or several of 4 GiB with an index; tsv, csv: a file for each table, a line of names first]:format:(npy safetensors tsv csv)'
            '--onnx[the network too, as FOLDER/model.onnx, for services that score without Shoal: its inputs are the pooled vectors of the fields, and the numbers]'
            '--state[the optimizer'\''s state too, and where rows have statistics show, click, time (seconds since 1970, 0: not told), flags (1: has its vector) and delta_score]'
            '--values=[the weights of tables of 16 bits: as float32, which is exact, or as they are stored, F16 or BF16 (safetensors; npy has no BF16)]:values:(float32 stored)'
            '--since=[only the rows that differ from those of an older checkpoint or ended run, and the keys that only it has, in an array `erased`; tensors are written whole]:WHERE:_files'
            '--missing-ok[write the rows that are there, where WHERE lacks those of a server: of a checkpoint made with --without, or a run whose server-* folder is lost]'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal predict')
        takes=(
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--space=[whose tables, over `space` of the job file]:NAME:_files'
            '*--in=[what is scored, in the job'\''s format; predict: with or without labels]:FILE:_files'
            '--out=[where the scores go; must not exist; -: standard output]:FILE:_files'
            '--format=[csv, tsv: a line of names first; npy: float32, NaN for a malformed row]:format:(csv tsv npy)'
            '*--column=[of the input, to be passed on before the score]:NAME:_files'
            '--workers=[that score a part each; the file is the same]:N:'
            '--servers=[that load a checkpoint]:N:'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal eval')
        takes=(
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--space=[whose tables, over `space` of the job file]:NAME:_files'
            '*--in=[what is scored, in the job'\''s format; predict: with or without labels]:FILE:_files'
            '--split=[what is measured, without --in]:split:(train valid test)'
            '--servers=[that load a checkpoint]:N:'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal status')
        takes=(
            '--job=[the job with this number (shoal jobs)]:NUMBER:'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal top')
        takes=(
            '--batch[prints, without a screen: for scripts, and where output is no terminal]'
            '--count=[ends after so many looks, one a second]:N:'
            '--job=[the job with this number (shoal jobs)]:NUMBER:'
            '--sort=[the order of servers and workers; those with a fault come first]:sort:(load name memory rows)'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal jobs')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal trace')
        takes=(
            '--every=[instead: has workers trace one batch in N of each lane, of all jobs, from now on; 0: none, as at the coordinator'\''s start]:N:'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal doctor')
        takes=(
            '--config=[the file of a daemon or a job, by its name: server*, coordinator*, worker*, else a job'\''s; what it asks for is checked against the machine]:FILE:_files'
            '*--set=[over a key of that file]:KEY=VALUE:_files'
            '--bundle=[pack findings, logs (journal, those of --run-dir), status, settings without commands and tokens, the last report and crash reports; .tar.gz without the program zstd]:FILE.tar.zst:_files'
            '--cluster[instead: the shards of a cluster, what each owns, and who was refused]'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal digest')
        takes=(
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal tables')
        takes=(
            '*--what-if=[what would be left if rows went, a dry run, nothing changes: shows=N: with fewer shows; score=S: with a lower score; ttl=DAYS: without an event for longer; memory=SIZE: all but as many rows as fit SIZE (over all shards): the newest stay, or those of the highest score where the table'\''s evict.by says so]:RULE=VALUE:_files'
            '--heat[instead: the load of each table and shard, and the hottest tablets: seconds of pulls and pushes, as sums that halve every five minutes; of servers that run]'
            '--sample=[instead: reads the job'\''s training input and tells how many rows it makes, by field, with admission by count 1, 2, 3, 5 and 10; no cluster is needed]:JOB.yaml:_files'
            '--share=[of --sample: share of the input that is read; the whole log is reckoned from it]:P:'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal inspect')
        takes=(
            '--field=[with --value: not a KEY]:NAME:_files'
            '--value=[of the field, as it stands in the input]:TEXT:_files'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal blame')
        takes=(
            '--limit=[at most so many]:N:'
            '--field=[with --value: not a KEY]:NAME:_files'
            '--value=[of the field, as it stands in the input]:TEXT:_files'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--from=[where the tables are: the folder of a run of `shoal local`, running or ended (an ended one does not know workers any more), or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal erase')
        takes=(
            '--keys=[a key a line: 0x..., decimal, or FIELD:VALUE; at most 65,536]:FILE:_files'
            '--field=[with --values or --value: values of a field instead]:NAME:_files'
            '--values=[a value of the field a line, as it stands in the input]:FILE:_files'
            '*--value=[of the field, as it stands in the input]:TEXT:_files'
            '--receipt=[where the receipt goes, JSON]:FILE:_files'
            '--checkpoints=[folder of checkpoints: those that still hold any of the keys are listed in the receipt]:DIR:_files'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--from=[where the tables are: the folder of a running `shoal local`, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal keys')
        takes=(
            '--help[this text]'
            '1:verb:((allow\:"these get a row at their next push, whatever admission says" block\:"these get no row" reset\:"these are neither allowed nor blocked nor erased any more" list\:"the keys of a table that are allowed, blocked or erased"))'
        ) ;;
    ('shoal keys allow')
        takes=(
            '--keys=[a key a line: 0x..., decimal, or FIELD:VALUE; at most 16,777,216]:FILE:_files'
            '--field=[with --values or --value: values of a field instead]:NAME:_files'
            '--values=[a value of the field a line, as it stands in the input]:FILE:_files'
            '*--value=[of the field, as it stands in the input]:TEXT:_files'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--from=[where the tables are: the folder of a running `shoal local`, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal keys block')
        takes=(
            '--keys=[a key a line: 0x..., decimal, or FIELD:VALUE; at most 16,777,216]:FILE:_files'
            '--field=[with --values or --value: values of a field instead]:NAME:_files'
            '--values=[a value of the field a line, as it stands in the input]:FILE:_files'
            '*--value=[of the field, as it stands in the input]:TEXT:_files'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--from=[where the tables are: the folder of a running `shoal local`, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal keys reset')
        takes=(
            '--keys=[a key a line: 0x..., decimal, or FIELD:VALUE; at most 16,777,216]:FILE:_files'
            '--field=[with --values or --value: values of a field instead]:NAME:_files'
            '--values=[a value of the field a line, as it stands in the input]:FILE:_files'
            '*--value=[of the field, as it stands in the input]:TEXT:_files'
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--from=[where the tables are: the folder of a running `shoal local`, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal keys list')
        takes=(
            '--job=[by which values of buckets and shared fields are read]:JOB.yaml:_files'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--from=[where the tables are: a checkpoint'\''s folder, that of a run of `shoal local`, running or ended, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal import')
        takes=(
            '--field=[the files have values of this field: integers, or a column `value`]:NAME:_files'
            '--raw[the files have the table'\''s own keys, though no `shoal export` says so]'
            '--ids=[keys or values: an npy file (integers, one dimension), or an array of the safetensors file]:ARRAY:_files'
            '--weights=[as many rows: all weights, or vectors alone; first-order weights then begin at 0]:ARRAY:_files'
            '--state=[the optimizer'\''s state of each row]:ARRAY:_files'
            '--keep[a key that has a row keeps it; else it is replaced]'
            '--map=[where each row'\''s key and value are written, tab-separated]:FILE:_files'
            '--job=[a cluster that lacks the table first gets the tables of this job, without rows (train.skip); a worker must be there]:JOB.yaml:_files'
            '--check[read and check everything, and send nothing]'
            '--space=[whose tables: the `space` of a job file; `shoal tables` lists those of a fleet]:NAME:_files'
            '--json[JSON instead of text]'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--from=[where the table is: the folder of a running `shoal local`, or `fleet`]:WHERE:_files'
            '--run-dir=[the same as --from DIR]:DIR:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal drop')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal promote')
        takes=(
            '--accept-loss[do it, and lose what the copy lacks]'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal replace')
        takes=(
            '--from=[without replicas: its folder; or the folder of a run, whose newest counts]:CHECKPOINT:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal rebalance')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--dry-run[only say what would move]'
            '--stop[no further tablets move; those that have moved stay there]'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal drain')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--dry-run[only say what would move]'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal add')
        takes=(
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[JSON instead of text]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal keygen')
        takes=(
            '--coordinator=[the public key, or the file of it (FILE.pub), of the coordinator that the holder is to trust; all but the coordinator itself need it. Two with a comma between while the coordinator'\''s key is changed]:KEY:_files'
            '--rotate[keep the key in FILE, which is there, and change which keys of the coordinator it pins to those of --coordinator]'
            '--role=[in the line for the list; sign: a key for `shoal checkpoint sign`]:role:(serve worker coord metrics admin sign)'
            '--name=[likewise]:NAME:_files'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal report')
        takes=(
            '--html=[where to write the page]:FILE:_files'
            '--coordinator=[endpoint of a running cluster'\''s coordinator, such as tcp://10.0.0.1:7000, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--json[print the report as JSON]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal data')
        takes=(
            '--job=[write the whole job there; must not exist; -: to standard output, and nothing else]:FILE:_files'
            '--label=[the column that is the label]:NAME:_files'
            '--rows=[rows of each part that are looked at, from the beginning of its files; 0: all]:N:'
            '--json[one JSON object]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal convert')
        takes=(
            '--out=[the event file to write]:FILE:_files'
            '--split=[whose files are converted]:split:(train valid test)'
            '--check=[read an event file through and say what is in it]:FILE:_files'
            '*--set=[change a key of the job file, such as train.batch=8192]:KEY=VALUE:_files'
            '--json[one JSON object]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal synth')
        takes=(
            '--out=[the log to write]:FILE:_files'
            '--kind=[what a line is]:kind:(criteo sequence tasks)'
            '--rows=[rows of it]:N:'
            '--seed=[the same seed gives the same files]:N:'
            '--part=[other rows of the same teacher (1 is what --valid-out has): a log in several files, each by a process of its own]:N:'
            '--valid-out=[another log of the same teacher, with other rows]:FILE:_files'
            '--valid-rows=[rows of that]:N:'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal bench')
        takes=(
            '--rows=[rows of the table]:N:'
            '--spaces=[of memory and journal: the rows are those of so many spaces, of two tables each, to which requests go in turn]:N:'
            '--seconds=[length of each in-memory phase]:N:'
            '--journal-seconds=[length of the journal phase after 10 s of warm-up]:N:'
            '--only=[parts: checkpoint (recovery after kill -9, restoring a checkpoint), import (rows of files), memory, journal (pull and push with that durability), train]:LIST:_files'
            '--checkpoint-rows=[rows of the table that is recovered and restored]:N:'
            '--import-rows=[rows of the files]:N:'
            '--train-rows=[examples of the log that is trained on]:N:'
            '--dir=[where server and log keep their files; on the disk to be measured]:DIR:_files'
            '--json[one flat JSON object: pull_w1, pull_w4, push_memory_w4, ... in keys/s, train_deepfm in examples/s]'
            '--help[this text]'
            '*:file:_files'
        ) ;;
    ('shoal-server')
        takes=(
            '--config=[server.yaml]:FILE:_files'
            '--instance=[of several on this machine: /etc/shoal/server-NAME.yaml where it is there, else /etc/shoal/server.yaml]:NAME:_files'
            '*--set=[over a key of the file: journal.max=4GiB]:KEY=VALUE:_files'
            '--check[read the files, keys and list, say the first fault or ok, and start nothing]'
            '--log-format=[of the log on standard error; json: an object a line]:log-format:(text json)'
            '--help[this text]'
            '--version[print it]'
            '*:file:_files'
        ) ;;
    ('shoal-coordinator')
        takes=(
            '--config=[coordinator.yaml]:FILE:_files'
            '*--set=[over a key of the file: shards=4]:KEY=VALUE:_files'
            '--check[read the files, keys and list, say the first fault or ok, and start nothing]'
            '--tensorboard=[write event files for TensorBoard into DIR/JOB-NUMBER]:DIR:_files'
            '--log-format=[of the log on standard error; json: an object a line]:log-format:(text json)'
            '--help[this text]'
            '--version[print it]'
            '*:file:_files'
        ) ;;
    ('shoal-worker')
        takes=(
            '--coordinator=[of shoal-coordinator: tcp://HOST:PORT or ipc://PATH, or several with commas]:EP:_files'
            '--keys=[of `shoal keygen`, for a coordinator on tcp]:FILE:_files'
            '--config=[job file: train, replay take train.lanes and train.backend from it, the job itself comes from the coordinator; run: the worker'\''s file]:FILE:_files'
            '*--set=[over a key of the job on this machine; run: of the worker'\''s file]:KEY=VALUE:_files'
            '--instance=[of several on this machine: /etc/shoal/worker-NAME.yaml where it is there, else /etc/shoal/worker.yaml]:NAME:_files'
            '--lanes=[lanes to work on at the same time]:N:'
            '--name=[of this worker]:NAME:_files'
            '--listen=[train, replay: where other workers reach this one, in jobs with train.dense: allreduce alone; run has it in its file]:EP:_files'
            '--advertise=[train, replay: what other workers are told in its place]:HOST:_files'
            '--backend=[what computes]:backend:(auto cpu cuda)'
            '--devices=[which GPUs: each N modulo the number of GPUs of this machine; lanes, and the parts of a network, are dealt over them]:N[,N...]:_files'
            '--device=[the same as --devices]:N[,N...]:_files'
            '--cores=[cores that parsing may keep busy]:N:'
            '--io-threads=[threads that carry messages; more for one worker with many lanes on a fast device]:N:'
            '--wait=[seconds to wait for the coordinator'\''s first answer]:N:'
            '--split=[eval: what is scored]:split:(train valid test)'
            '*--in=[what is scored, in the job'\''s format; predict: with or without labels]:FILE:_files'
            '--out=[where the scores go; must not exist; -: standard output]:FILE:_files'
            '--format=[csv, tsv: a line of names first; npy: float32, NaN for a malformed row]:format:(csv tsv npy)'
            '*--column=[of the input, to be passed on before the score]:NAME:_files'
            '--part=[predict: only the I-th of N parts, from 0; all of them one behind another are the whole file]:I/N:_files'
            '--report=[predict: JSON: rows, bad_lines and where the first of these is; values: what is read]:FILE:_files'
            '--field=[fields: a column'\''s name, or a field'\''s number]:NAME:_files'
            '--value=[fields: a value of it as it stands in the input]:TEXT:_files'
            '--made-by=[fields: text of the job that made the tables, with the names that they know]:FILE:_files'
            '--share=[count: share of the input]:P:'
            '--check[read files and keys, say the first fault or ok, and start nothing; convert: read an event file through and say what is in it]'
            '--rows=[data: rows of each part that are looked at; 0: all]:N:'
            '--label=[data: the column that is the label]:NAME:_files'
            '--job=[data: where the whole job is written; -: standard output]:FILE:_files'
            '--json[convert, data: one JSON object]'
            '--metrics=[train, replay: where /metrics, /healthz and /readyz are served; run has it in its file]:127.0.0.1\:PORT|unix\:PATH:_files'
            '--insecure-plaintext[talk over tcp without keys]'
            '--allow-commands[train: run the commands of a job'\''s input ({cmd: ...}), whoever submitted it]'
            '--log-format=[of the log on standard error; json: an object a line]:log-format:(text json)'
            '--help[this text]'
            '--version[print it]'
            '*:file:_files'
        ) ;;
esac
_arguments : $takes
