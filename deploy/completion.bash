# Completion of shoal, shoal-server, shoal-coordinator and shoal-worker for bash:
# made by `shoal reference completion`; tests/reference.py holds it.
_shoal()
{
    local at=${COMP_WORDS[0]##*/} word words='' file='' i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="$at ${COMP_WORDS[i]}"
        case $word in
        'shoal local') at=$word ;;
        'shoal submit') at=$word ;;
        'shoal stop') at=$word ;;
        'shoal checkpoint') at=$word ;;
        'shoal checkpoint create') at=$word ;;
        'shoal checkpoint list') at=$word ;;
        'shoal checkpoint verify') at=$word ;;
        'shoal checkpoint diff') at=$word ;;
        'shoal checkpoint restore') at=$word ;;
        'shoal checkpoint export') at=$word ;;
        'shoal predict') at=$word ;;
        'shoal eval') at=$word ;;
        'shoal status') at=$word ;;
        'shoal doctor') at=$word ;;
        'shoal digest') at=$word ;;
        'shoal tables') at=$word ;;
        'shoal inspect') at=$word ;;
        'shoal blame') at=$word ;;
        'shoal erase') at=$word ;;
        'shoal drop') at=$word ;;
        'shoal report') at=$word ;;
        'shoal synth') at=$word ;;
        'shoal bench') at=$word ;;
        esac
    done
    case $at in
    'shoal') words='local submit stop checkpoint predict eval status doctor digest tables inspect blame erase drop report synth bench --help --version' ;;
    'shoal local') words='--servers --shards --workers --run-dir --set --server-set --worker-io-threads --tensorboard --no-restart --resume --start-from --from --warm-start --help' ;;
    'shoal submit') words='--coordinator --workers --set --resume --start-from --from --warm-start --no-wait --help' ;;
    'shoal stop') words='--coordinator --help' ;;
    'shoal checkpoint') words='create list verify diff restore export --help' ;;
    'shoal checkpoint create') words='--coordinator --run-dir --json --help' ;;
    'shoal checkpoint list') words='--json --help' ;;
    'shoal checkpoint verify') words='--help' ;;
    'shoal checkpoint diff') words='--json --help' ;;
    'shoal checkpoint restore') words='--coordinator --workers --set --no-wait --help' ;;
    'shoal checkpoint export') words='--out --format --state --help' ;;
    'shoal predict') words='--from --coordinator --in --out --format --column --workers --servers --set --help' ;;
    'shoal eval') words='--from --coordinator --in --split --servers --set --help' ;;
    'shoal status') words='--coordinator --run-dir --json --help' ;;
    'shoal doctor') words='--cluster --coordinator --run-dir --json --help' ;;
    'shoal digest') words='--coordinator --run-dir --json --help' ;;
    'shoal tables') words='--what-if --sample --share --job --coordinator --run-dir --json --help' ;;
    'shoal inspect') words='--field --value --job --coordinator --run-dir --json --help' ;;
    'shoal blame') words='--limit --field --value --job --coordinator --run-dir --json --help' ;;
    'shoal erase') words='--keys --field --value --receipt --checkpoints --job --coordinator --run-dir --help' ;;
    'shoal drop') words='--coordinator --help' ;;
    'shoal report') words='--html --help' ;;
    'shoal synth') words='--out --kind --rows --seed --part --valid-out --valid-rows --help' ;;
    'shoal bench') words='--rows --seconds --journal-seconds --only --growth-rows --checkpoint-rows --cold-rows --shards-rows --train-rows --dir --json --help' ;;
    'shoal-server') words='--config --instance --set --help --version' ;;
    'shoal-coordinator') words='--config --set --tensorboard --help --version' ;;
    'shoal-worker') words='--coordinator --config --set --instance --lanes --name --backend --device --cores --io-threads --wait --split --in --out --format --column --part --report --field --value --made-by --share --insecure-plaintext --allow-commands --help --version' ;;
    esac
    case "$at ${COMP_WORDS[COMP_CWORD - 1]}" in
    'shoal local --servers') words=''; file=yes ;;
    'shoal local --shards') words=''; file=yes ;;
    'shoal local --workers') words=''; file=yes ;;
    'shoal local --run-dir') words=''; file=yes ;;
    'shoal local --set') words=''; file=yes ;;
    'shoal local --server-set') words=''; file=yes ;;
    'shoal local --worker-io-threads') words=''; file=yes ;;
    'shoal local --tensorboard') words=''; file=yes ;;
    'shoal local --resume') words=''; file=yes ;;
    'shoal local --start-from') words=''; file=yes ;;
    'shoal local --from') words=''; file=yes ;;
    'shoal local --warm-start') words=''; file=yes ;;
    'shoal submit --coordinator') words=''; file=yes ;;
    'shoal submit --workers') words=''; file=yes ;;
    'shoal submit --set') words=''; file=yes ;;
    'shoal submit --resume') words=''; file=yes ;;
    'shoal submit --start-from') words=''; file=yes ;;
    'shoal submit --from') words=''; file=yes ;;
    'shoal submit --warm-start') words=''; file=yes ;;
    'shoal stop --coordinator') words=''; file=yes ;;
    'shoal checkpoint create --coordinator') words=''; file=yes ;;
    'shoal checkpoint create --run-dir') words=''; file=yes ;;
    'shoal checkpoint restore --coordinator') words=''; file=yes ;;
    'shoal checkpoint restore --workers') words=''; file=yes ;;
    'shoal checkpoint restore --set') words=''; file=yes ;;
    'shoal checkpoint export --out') words=''; file=yes ;;
    'shoal checkpoint export --format') words='tsv csv binary'; file=yes ;;
    'shoal predict --from') words=''; file=yes ;;
    'shoal predict --coordinator') words=''; file=yes ;;
    'shoal predict --in') words=''; file=yes ;;
    'shoal predict --out') words=''; file=yes ;;
    'shoal predict --format') words='csv tsv npy'; file=yes ;;
    'shoal predict --column') words=''; file=yes ;;
    'shoal predict --workers') words=''; file=yes ;;
    'shoal predict --servers') words=''; file=yes ;;
    'shoal predict --set') words=''; file=yes ;;
    'shoal eval --from') words=''; file=yes ;;
    'shoal eval --coordinator') words=''; file=yes ;;
    'shoal eval --in') words=''; file=yes ;;
    'shoal eval --split') words='train valid test'; file=yes ;;
    'shoal eval --servers') words=''; file=yes ;;
    'shoal eval --set') words=''; file=yes ;;
    'shoal status --coordinator') words=''; file=yes ;;
    'shoal status --run-dir') words=''; file=yes ;;
    'shoal doctor --coordinator') words=''; file=yes ;;
    'shoal doctor --run-dir') words=''; file=yes ;;
    'shoal digest --coordinator') words=''; file=yes ;;
    'shoal digest --run-dir') words=''; file=yes ;;
    'shoal tables --what-if') words=''; file=yes ;;
    'shoal tables --sample') words=''; file=yes ;;
    'shoal tables --share') words=''; file=yes ;;
    'shoal tables --job') words=''; file=yes ;;
    'shoal tables --coordinator') words=''; file=yes ;;
    'shoal tables --run-dir') words=''; file=yes ;;
    'shoal inspect --field') words=''; file=yes ;;
    'shoal inspect --value') words=''; file=yes ;;
    'shoal inspect --job') words=''; file=yes ;;
    'shoal inspect --coordinator') words=''; file=yes ;;
    'shoal inspect --run-dir') words=''; file=yes ;;
    'shoal blame --limit') words=''; file=yes ;;
    'shoal blame --field') words=''; file=yes ;;
    'shoal blame --value') words=''; file=yes ;;
    'shoal blame --job') words=''; file=yes ;;
    'shoal blame --coordinator') words=''; file=yes ;;
    'shoal blame --run-dir') words=''; file=yes ;;
    'shoal erase --keys') words=''; file=yes ;;
    'shoal erase --field') words=''; file=yes ;;
    'shoal erase --value') words=''; file=yes ;;
    'shoal erase --receipt') words=''; file=yes ;;
    'shoal erase --checkpoints') words=''; file=yes ;;
    'shoal erase --job') words=''; file=yes ;;
    'shoal erase --coordinator') words=''; file=yes ;;
    'shoal erase --run-dir') words=''; file=yes ;;
    'shoal drop --coordinator') words=''; file=yes ;;
    'shoal report --html') words=''; file=yes ;;
    'shoal synth --out') words=''; file=yes ;;
    'shoal synth --kind') words='criteo sequence tasks'; file=yes ;;
    'shoal synth --rows') words=''; file=yes ;;
    'shoal synth --seed') words=''; file=yes ;;
    'shoal synth --part') words=''; file=yes ;;
    'shoal synth --valid-out') words=''; file=yes ;;
    'shoal synth --valid-rows') words=''; file=yes ;;
    'shoal bench --rows') words=''; file=yes ;;
    'shoal bench --seconds') words=''; file=yes ;;
    'shoal bench --journal-seconds') words=''; file=yes ;;
    'shoal bench --only') words=''; file=yes ;;
    'shoal bench --growth-rows') words=''; file=yes ;;
    'shoal bench --checkpoint-rows') words=''; file=yes ;;
    'shoal bench --cold-rows') words=''; file=yes ;;
    'shoal bench --shards-rows') words=''; file=yes ;;
    'shoal bench --train-rows') words=''; file=yes ;;
    'shoal bench --dir') words=''; file=yes ;;
    'shoal-server --config') words=''; file=yes ;;
    'shoal-server --instance') words=''; file=yes ;;
    'shoal-server --set') words=''; file=yes ;;
    'shoal-coordinator --config') words=''; file=yes ;;
    'shoal-coordinator --set') words=''; file=yes ;;
    'shoal-coordinator --tensorboard') words=''; file=yes ;;
    'shoal-worker --coordinator') words=''; file=yes ;;
    'shoal-worker --config') words=''; file=yes ;;
    'shoal-worker --set') words=''; file=yes ;;
    'shoal-worker --instance') words=''; file=yes ;;
    'shoal-worker --lanes') words=''; file=yes ;;
    'shoal-worker --name') words=''; file=yes ;;
    'shoal-worker --backend') words='auto cpu cuda'; file=yes ;;
    'shoal-worker --device') words=''; file=yes ;;
    'shoal-worker --cores') words=''; file=yes ;;
    'shoal-worker --io-threads') words=''; file=yes ;;
    'shoal-worker --wait') words=''; file=yes ;;
    'shoal-worker --split') words='train valid test'; file=yes ;;
    'shoal-worker --in') words=''; file=yes ;;
    'shoal-worker --out') words=''; file=yes ;;
    'shoal-worker --format') words='csv tsv npy'; file=yes ;;
    'shoal-worker --column') words=''; file=yes ;;
    'shoal-worker --part') words=''; file=yes ;;
    'shoal-worker --report') words=''; file=yes ;;
    'shoal-worker --field') words=''; file=yes ;;
    'shoal-worker --value') words=''; file=yes ;;
    'shoal-worker --made-by') words=''; file=yes ;;
    'shoal-worker --share') words=''; file=yes ;;
    esac
    word=${COMP_WORDS[COMP_CWORD]}
    [[ -n $file && -z $words ]] && COMPREPLY=() ||
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _shoal shoal shoal-server shoal-coordinator shoal-worker
