#!/usr/bin/env python3
"""kustomize.py: deploy/kustomize/base fits itself and the daemons: names that refer to each other, ports, users, shards, options that the programs have;
probes that ask the daemon's own port, a key a pod, checkpoints that coordinator and servers share, a job that begins. The manifests are read by a loader of the part of YAML that they use; where kubectl is, it renders them, too. Control: each fault
planted is found."""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = ROOT / "deploy/kustomize/base"
UMASK = 'umask 0007 && exec "$0" "$@"'


# ---- the part of YAML that the manifests use: mappings and lists in blocks, [a, b], {a: b}, "text", | blocks

def scalar(text):
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [scalar(part) for part in re.findall(r'"[^"]*"|[^,]+', text[1:-1]) if part.strip()]
    if text == "{}":
        return {}
    if text[:1] == '"' and text[-1:] == '"':
        return text[1:-1]
    if text[:1] in ("{", "'", "&", "*", "!", ">", "%", "@", "`"):
        raise ValueError(f"the loader does not read {text!r}")
    return {"true": True, "false": False, "": None}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else text)


def depth(line):
    return len(line) - len(line.lstrip(" "))


def block(lines, indent):
    """The value whose lines stand at `indent`; takes them off the list."""
    if lines[0].lstrip().startswith("- "):
        items = []
        while lines and depth(lines[0]) == indent and lines[0].lstrip().startswith("- "):
            lines[0] = lines[0].replace("- ", "  ", 1)
            rest = lines[0].strip()
            inner = depth(lines[0])
            items.append(block(lines, inner) if re.match(r"[\w./-]+:( |$)", rest) else scalar(lines.pop(0)))
        return items
    found = {}
    while lines and depth(lines[0]) == indent:
        key, value = re.fullmatch(r"([\w./-]+):(?: (.*))?", lines.pop(0).strip()).groups()
        if key in found:
            raise ValueError(f"{key} stands twice")
        if value == "|":
            text = []
            while lines and depth(lines[0]) > indent:
                text.append(lines.pop(0))
            found[key] = "\n".join(line[depth(text[0]):] for line in text) + "\n"
        elif value is None:
            deeper = lines and (depth(lines[0]) > indent or depth(lines[0]) == indent and lines[0].lstrip().startswith("- "))
            found[key] = block(lines, depth(lines[0])) if deeper else None
        else:
            found[key] = scalar(value)
    return found


def load(text):
    """Documents of a file."""
    documents = []
    for part in re.split(r"^---\n", text, flags=re.M):
        lines = [line for line in part.split("\n") if line.strip() and not line.lstrip().startswith("#")]
        if lines:
            documents.append(block(lines, 0))
            if lines:
                raise ValueError(f"cannot place {lines[0]!r}")
    return documents


# ---- what has to fit

def containers(all_, kind):
    return [(d, c) for d in all_ if d["kind"] == kind for c in d["spec"]["template"]["spec"]["containers"]]


def named(all_, kind, name):
    return next((d for d in all_ if d["kind"] == kind and d["metadata"]["name"] == name), None)


def options():
    """Program -> its options, of the table that parses them."""
    text = (ROOT / "proto/job/options.c").read_text(encoding="utf-8")
    common = {"config", "set", "help", "version", "tensorboard", "log-format", "in", "out", "format", "column", "workers"}
    tables = {"shoal-server": "server", "shoal-coordinator": "coordinator", "shoal-worker": "worker", "shoal": "submit"}
    return {program: common | {"coordinator"} | set(re.findall(r'\{"([\w-]+)", CONFIG', re.search(rf"options_{p}\[\] = \{{(.*?)\n\}};", text, re.S)[1]))
            for program, p in tables.items()}


def words(c):
    """The program and its words, behind the shell that sets the umask."""
    said = c["command"] + c.get("args", [])
    return said[3:] if said[:2] == ["/bin/sh", "-c"] else said


def program_of(c):
    return words(c)[0].rsplit("/", 1)[-1]


def mounted(c, name):
    return next((m for m in c["volumeMounts"] if m["name"] == name), {"mountPath": "", "readOnly": True})


def job_file(settings, key):
    return re.search(rf"{key}: ([\w/.-]+)", settings["job.yaml"])


def shared_faults(d, c, all_, settings):
    """The folder of checkpoints: written by both users through their group, one file system on all nodes."""
    name, pod = d["metadata"]["name"], d["spec"]["template"]["spec"]
    root = re.search(r"^checkpoint_root: (\S+)$", settings[words(c)[2].rsplit("/", 1)[-1]], re.M)[1]
    claim = next((v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v), None)
    volume = named(all_, "PersistentVolumeClaim", claim)
    if volume is None or volume["spec"]["accessModes"] != ["ReadWriteMany"] or mounted(c, "checkpoints")["mountPath"] != root or mounted(c, "checkpoints").get("readOnly"):
        yield f"{name}: {root} is no file system of all pods"
    if c["command"][:3] != ["/bin/sh", "-c", UMASK] or pod["securityContext"].get("supplementalGroups") != [store_group()]:
        yield f"{name}: its group may not write in the checkpoints of others"
    if job_file(settings, "dir") is None or job_file(settings, "dir")[1] != root:
        yield f"the job's checkpoints do not lie in {root}"


def store_group():
    return int(re.search(r"^g shoal-store (\d+)$", (ROOT / "deploy/systemd/shoal.sysusers").read_text(encoding="utf-8"), re.M)[1])


def metrics_port(settings):
    found = re.search(r"^metrics: 0\.0\.0\.0:(\d+)\nmetrics_token: /etc/shoal/keys/metrics$", settings, re.M)
    return int(found[1]) if found else 0


def probe_faults(d, c, settings):
    """A daemon that hangs is killed, by /healthz alone: a start that moves, and one without a coordinator, may take as long as they do. An hour goes by
    before a container that does not even listen is. /readyz says when its rows are back."""
    name, port = d["metadata"]["name"], metrics_port(settings)
    if {"name": "metrics", "containerPort": port} not in c["ports"]:
        yield f"{name}: the file has metrics at {port}, the container shows {c['ports']}"
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        if c.get(probe, {}).get("httpGet") != {"path": path, "port": "metrics"}:
            yield f"{name}: {probe} does not ask {path}"
    seconds = {probe: c.get(probe, {}).get("failureThreshold", 0) * c.get(probe, {}).get("periodSeconds", 0) for probe in ("startupProbe", "livenessProbe")}
    if seconds["startupProbe"] < 3600 or seconds["livenessProbe"] < 60:
        yield f"{name}: it is killed too early: {seconds}"


def key_faults(d, c, all_):
    """A Secret a role; of several pods each sees the one of its own name, as shoal.key."""
    name, pod = d["metadata"]["name"], d["spec"]["template"]["spec"]
    secret = next((v["secret"] for v in pod["volumes"] if "secret" in v), {})
    folder = next((v.get("value") for v in c["env"] if v["name"] == "CREDENTIALS_DIRECTORY"), None)
    own = "$(POD_NAME).key" if name in ("shoal-server", "shoal-worker") else None
    wanted = [{"mountPath": f"{folder}/shoal.key", "subPathExpr": own}, {"mountPath": f"{folder}/metrics", "subPath": "metrics"}] if own else [{"mountPath": folder}]
    if folder != "/etc/shoal/keys" or [m for m in c["volumeMounts"] if m["name"] == "keys"] != [{"name": "keys", **w, "readOnly": True} for w in wanted] \
            or secret.get("defaultMode") != 0o440 \
            or secret.get("secretName") != name or len([s for s in all_ if s["kind"] == "Secret"]) != 4:
        yield f"{name}: it finds no key of its own, or sees those of others"
    if own and own[2:-5] not in [v["name"] for v in c["env"]]:
        yield f"{name}: {own} is nobody's name"
    if "insecure" in str(c):
        yield f"{name}: it shows no key"


def pod_faults(d, c, all_, has):
    name, pod = d["metadata"]["name"], d["spec"]["template"]["spec"]
    program = program_of(c)
    if program not in has:
        yield f"{name}: {program} is no program"
    for word in words(c):
        if isinstance(word, str) and word.startswith("--") and word[2:] not in has.get(program, ()):
            yield f"{name}: {program} has no option {word}"
    if not pod["securityContext"]["runAsNonRoot"] or not c["securityContext"]["readOnlyRootFilesystem"] or c["securityContext"]["allowPrivilegeEscalation"] \
            or c["securityContext"]["capabilities"]["drop"] != ["ALL"]:
        yield f"{name}: it may too much"
    if c["resources"]["requests"]["memory"] != c["resources"]["limits"]["memory"]:
        yield f"{name}: memory asked for and allowed differ"
    mounts, volumes = {m["name"]: m for m in c["volumeMounts"]}, {v["name"] for v in pod["volumes"]} | {v["metadata"]["name"] for v in d["spec"].get("volumeClaimTemplates", [])}
    if set(mounts) != volumes:
        yield f"{name}: mounts {sorted(mounts)}, has {sorted(volumes)}"
    for volume in pod["volumes"]:
        for kind, key, label in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            if key in volume and named(all_, kind, volume[key][label]) is None:
                yield f"{name}: no {kind} {volume[key][label]}"
    settings = named(all_, "ConfigMap", "shoal")["data"]
    file = next((w for w in words(c) if str(w).endswith(".yaml")), "")
    if mounted(c, "settings") != {"name": "settings", "mountPath": file.rsplit("/", 1)[0], "readOnly": True} or file.rsplit("/", 1)[-1] not in settings:
        yield f"{name}: {file} is not mounted, with its folder"
    if d["spec"]["template"]["metadata"]["labels"].get("app.kubernetes.io/part-of") != "shoal":
        yield f"{name}: the network's rule does not see it"


def set_faults(d, c, all_):
    """Checks a StatefulSet."""
    name = d["metadata"]["name"]
    service = named(all_, "Service", d["spec"]["serviceName"])
    if service is None or service["spec"]["clusterIP"] != "None" or service["spec"]["selector"] != d["spec"]["selector"]["matchLabels"]:
        yield f"{name}: no headless service has its pods"
        return
    settings = settings_of(c, all_)
    if d["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] != d["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]:
        yield f"{name}: it does not select its pods"
    if "insecure" in settings:
        yield f"{name}: who may come is not said"
    if program_of(c) != "shoal-worker":
        yield from listener_faults(name, c, all_, service)


def settings_of(c, all_):
    file = next(w for w in words(c) if str(w).endswith(".yaml"))
    return named(all_, "ConfigMap", "shoal")["data"][file.rsplit("/", 1)[-1]]


def listener_faults(name, c, all_, service):
    """Checks what has a port and a folder."""
    port, settings = c["ports"][0]["containerPort"], settings_of(c, all_)
    listens = int(re.search(r"^listen: tcp://[\d.]+:(\d+)$", settings, re.M)[1])
    if not port == listens == service["spec"]["ports"][0]["port"]:
        yield f"{name}: listens at {listens}, shows {port}, its service {service['spec']['ports'][0]['port']}"
    if port not in [p["port"] for p in named(all_, "NetworkPolicy", "shoal")["spec"]["ingress"][0]["ports"]]:
        yield f"{name}: the network's rule shuts {port}"
    allow = re.search(r"^allow: /etc/shoal/keys/allow$", settings, re.M)
    if (program_of(c) == "shoal-coordinator") != bool(allow):
        yield f"{name}: who may come is not said"
    folder = re.search(r"^data_dir: (\S+)$", settings, re.M)[1]
    state = next(m["mountPath"] for m in c["volumeMounts"] if m["name"] == "state")
    if not folder.startswith(state + "/"):
        yield f"{name}: data_dir {folder} is not on its volume {state}"


def faults(texts):
    try:
        parts = {path: load(text) for path, text in texts.items()}
    except (ValueError, AttributeError, IndexError) as e:
        return [f"not read: {e}"]
    kustomization = parts["kustomization.yaml"][0]
    found = []
    if sorted(kustomization["resources"]) != sorted(set(parts) - {"kustomization.yaml"}):
        found.append("kustomization.yaml does not have the files that are there")
    all_ = [d for name in parts if name != "kustomization.yaml" for d in parts[name]]
    has = options()
    sets = containers(all_, "StatefulSet")
    for d, c in sets + containers(all_, "Job"):
        found += [*pod_faults(d, c, all_, has), *key_faults(d, c, all_)]
    for d, c in sets:
        found += [*set_faults(d, c, all_), *probe_faults(d, c, settings_of(c, all_))]
        if program_of(c) != "shoal-worker":
            found += shared_faults(d, c, all_, named(all_, "ConfigMap", "shoal")["data"])
    users = [d["spec"]["template"]["spec"]["securityContext"]["runAsUser"] for d in all_ if d["kind"] in ("StatefulSet", "Job")]
    if len(set(users)) != 4 or any(f" {user} " not in (ROOT / "deploy/image").read_text(encoding="utf-8") for user in set(users) - {65534}):
        found.append(f"users {users} are not those of deploy/image")
    server = named(all_, "StatefulSet", "shoal-server")
    settings = named(all_, "ConfigMap", "shoal")["data"]
    shards = {name: int(re.search(r"^shards: (\d+)$", settings[f"{name}.yaml"], re.M)[1]) for name in ("coordinator", "server")}
    if shards["coordinator"] != server["spec"]["replicas"] * shards["server"]:
        found.append(f"the coordinator waits for {shards['coordinator']} shards, servers have {server['spec']['replicas']} times {shards['server']}")
    budget = next((d for d in all_ if d["kind"] == "PodDisruptionBudget"), None)
    if budget is None or budget["spec"]["selector"] != server["spec"]["selector"] or budget["spec"]["maxUnavailable"] != 1:
        found.append("no budget holds the servers")
    workers, submit = named(all_, "StatefulSet", "shoal-worker"), named(all_, "Job", "shoal-submit")
    if workers is None or words(containers([workers], "StatefulSet")[0][1])[1] != "run":
        found.append("no workers take part in one job after another")
    elif submit is None or f"--workers {workers['spec']['replicas']}" not in " ".join(map(str, words(containers([submit], "Job")[0][1]))):
        found.append("nobody submits a job for so many workers")
    elif submit["spec"]["template"]["spec"]["restartPolicy"] != "Never" or [r["onExitCodes"] for r in submit["spec"]["podFailurePolicy"]["rules"]] \
            != [{"operator": "NotIn", "values": [69]}]:
        found.append("a job that fails is submitted again")
    version = re.search(r"project\(shoal VERSION (\S+) ", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    if kustomization["images"][0]["newTag"] != version:
        found.append(f"the image is not of version {version}")
    if {d["kind"] for d in all_} != {"Namespace", "ConfigMap", "Secret", "Service", "StatefulSet", "PodDisruptionBudget", "Job", "NetworkPolicy",
                                    "PersistentVolumeClaim"}:
        found.append("kinds are missing")
    return found


def rendered(texts):
    """If kubectl is installed, it reads the base, and makes the same number of objects from it."""
    if shutil.which("kubectl") is None:
        print("not rendered: no kubectl here")
        return []
    got = subprocess.run(["kubectl", "kustomize", BASE], capture_output=True, text=True, check=False)
    if got.returncode:
        return [f"kubectl kustomize: {got.stderr.strip()}"]
    objects = sum(len(load(text)) for name, text in texts.items() if name != "kustomization.yaml")
    kinds = re.findall(r"^kind: (\w+)$", got.stdout, re.M)
    if len(kinds) != objects or got.stdout.count("namespace: shoal") != objects - 1 or "image: shoal:" not in got.stdout:
        return [f"kubectl kustomize makes {len(kinds)} objects of {objects}, {got.stdout.count('namespace: shoal')} with the namespace"]
    return []


PLANTED = [("coordinator.yaml", "containerPort: 7000", "containerPort: 7001"), ("server.yaml", "serviceName: shoal-server", "serviceName: shoal-servers"),
           ("server.yaml", "replicas: 2", "replicas: 3"), ("worker.yaml", "--set", "--sets"), ("server.yaml", "secretName: shoal-server", "secretName: shoal"),
           ("network.yaml", "port: 7070", "port: 7071"), ("server.yaml", "maxUnavailable: 1", "maxUnavailable: 2"), ("worker.yaml", "runAsUser: 4713", "runAsUser: 4712"),
           ("settings.yaml", "data_dir: /var/lib/shoal/server/data", "data_dir: /srv"), ("kustomization.yaml", "newTag: 0", "newTag: 9"),
           ("coordinator.yaml", "path: /healthz", "path: /"), ("worker.yaml", "[/usr/bin/shoal-worker, run,", "[/usr/bin/shoal-worker, train,"),
           ("server.yaml", "path: /readyz", "path: /healthz"), ("server.yaml", "failureThreshold: 720", "failureThreshold: 7"),
           ("worker.yaml", "containerPort: 9464", "containerPort: 9466"), ("settings.yaml", "    metrics_token: /etc/shoal/keys/metrics\n", ""), ("worker.yaml", "subPath: metrics", "subPath: allow"),
           ("coordinator.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"), ("kustomization.yaml", "  - keys.yaml\n", ""),
           ("worker.yaml", "subPathExpr: $(POD_NAME).key", "subPathExpr: $(NAME).key"), ("server.yaml", "subPathExpr: $(POD_NAME).key", "subPath: server.key"),
           ("server.yaml", "secretName: shoal-server", "secretName: shoal-coordinator"), ("server.yaml", "defaultMode: 288", "defaultMode: 420"),
           ("settings.yaml", "allow: /etc/shoal/keys/allow", "insecure_plaintext: true"), ("checkpoints.yaml", "ReadWriteMany", "ReadWriteOnce"),
           ("coordinator.yaml", "mountPath: /var/lib/shoal/checkpoints", "mountPath: /srv/checkpoints"), ("server.yaml", "umask 0007", "umask 0077"),
           ("server.yaml", "supplementalGroups: [4714]", "supplementalGroups: [4710]"), ("settings.yaml", "{dir: /var/lib/shoal/checkpoints,", "{dir: /srv,"),
           ("coordinator.yaml", "mountPath: /etc/shoal/settings", "mountPath: /etc/shoal/settings/coordinator.yaml"), ("submit.yaml", '--workers, "2"', '--workers, "3"'),
           ("submit.yaml", "values: [69]", "values: [70]"), ("submit.yaml", "shoal, submit", "shoal-submit"), ("submit.yaml", "secretName: shoal-submit", "secretName: shoal-worker")]


def main():
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(BASE.glob("*.yaml"))}
    found = faults(texts)
    for path, right, wrong in PLANTED:
        assert right in texts[path], (path, right)
        if not faults({**texts, path: texts[path].replace(right, wrong, 1)}):
            found.append(f"control: {wrong or 'nothing'} for {right} in {path} is not found")
    found += rendered(texts)
    print("\n".join(found) or "the manifests fit")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
