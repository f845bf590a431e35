#!/usr/bin/env python3
"""monitoring.py: deploy/monitoring fits the table of metrics: every query of rules and dashboard names metrics, and labels of them, that a daemon tells;
each alert has a case that fires it, one that does not, both with values of all its metrics, and a paragraph in the manual; the scrape job asks the ports of
the packages' files; promtool, where it is, checks rules, cases and scrape job. Control: a metric, a label, a case, a case that proves nothing, a paragraph
and a port that are missing are found."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MONITORING = ROOT / "deploy/monitoring"
# Prometheus's own labels: of the scrape, of a histogram, and the daemons' label `job` as the scrape's takes its name.
OWN = {"job", "instance", "le", "exported_job"}
WORDS = {"sum", "rate", "increase", "by", "ignoring", "group_left", "histogram_quantile", "avg", "max", "min", "abs", "and", "on", "clamp_min", "up"}


def table():
    """{name of a series: its labels} of the manual's table, which reference.py keeps as the code has it."""
    found = {}
    page = (ROOT / "deploy/manual/metrics.md").read_text(encoding="utf-8")
    for name, kind, labels in re.findall(r"^`(\w+)`\|(\w+)\|([\w,]*)\|", page, re.M):
        for series in [f"{name}_{part}" for part in ("bucket", "sum", "count")] if kind == "histogram" else [name]:
            found[series] = set(filter(None, labels.split(",")))
    return found


def query_faults(where, query, metrics):
    named = set(re.findall(r"\b(?:shoal|process)_\w+", query))
    faults = [f"{where}: no daemon tells {name}" for name in sorted(named - metrics.keys())]
    labels = OWN.union(*(metrics.get(name, set()) for name in named))
    bare = re.sub(r'"[^"]*"|\[\w+\]|\b[\d.]+\b', " ", query)
    for word in re.findall(r"[a-z_]\w*", bare):
        if word not in named | labels | WORDS:
            faults.append(f"{where}: {word} is no label of {', '.join(sorted(named))}")
    return faults + [f"{where}: {query!r} names no metric"] * (not named and "up{" not in query)


def scrape_faults(scrape):
    ports = {re.search(r"^metrics: (\S+)", (ROOT / f"deploy/systemd/{role}.yaml").read_text(encoding="utf-8"), re.M)[1] for role in ("coordinator", "server", "worker")}
    asked = set(re.findall(r"targets: \[(.*?)\]", scrape))
    return [f"the scrape job asks {sorted(asked)}, the packages' files have {sorted(ports)}"] * (asked != ports) + \
        ["the scrape job is not called shoal"] * ("job_name: shoal\n" not in scrape)


def case_faults(alert, query, kind, cases):
    """The case asks for this alert, expects some or none, and has a value of each metric that the alert looks at."""
    text = "".join(re.findall(rf"^  - name: {alert} {kind}\n((?:    .*\n)*)", cases, re.M))
    if not text:
        return [f"{alert}: no case that {kind}"]
    asked, none = re.findall(r"alertname: (\w+)", text), "exp_alerts: []" in text
    faults = [f"{alert}: the case that {kind} asks for {', '.join(asked)}"] * (asked != [alert])
    faults += [f"{alert}: the case that {kind} expects the contrary"] * (none == (kind == "fires"))
    given = set(re.findall(r"series: '(\w+)", text))
    return faults + [f"{alert}: the case that {kind} has no {name}" for name in re.findall(r"\b(?:shoal|process)_\w+|\bup\b", query) if name not in given]


def faults_of(rules, cases, dashboard, page, scrape):
    metrics, faults = table(), scrape_faults(scrape)
    alerts = re.findall(r"- alert: (\w+)\n +expr: (.*)", rules)
    for alert, query in alerts:
        faults += query_faults(alert, query, metrics)
        for kind in ("fires", "does not fire"):
            faults += case_faults(alert, query, kind, cases)
        faults += [f"{alert}: no paragraph in the manual"] * (f"\n**{alert}.** " not in page)
    for panel in json.loads(dashboard)["panels"]:
        for target in panel["targets"]:
            faults += query_faults(panel["title"], target["expr"], metrics)
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            known = OWN.union(*(metrics.get(name, set()) for name in re.findall(r"\b(?:shoal|process)_\w+", target["expr"])))
            faults += [f"{panel['title']}: {label} is no label" for label in sorted(named - known)]
    return faults + ["there are no alerts"] * (len(alerts) < 11)


def promtool_faults():
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not here: rules and cases are read alone")
        return []
    return [text for words in (("check", "rules", "shoal.rules.yml"), ("test", "rules", "shoal.rules.test.yml"),
                          ("check", "config", "prometheus.yml"))
            for done in [subprocess.run([promtool, *words], cwd=MONITORING, capture_output=True, text=True, check=False)] if done.returncode
            for text in [done.stdout + done.stderr]]


PLANTED = [(0, "shoal_loop_silent_seconds", "shoal_loops_silent_seconds"), (0, 'reason="NOT_FINITE"', 'why="NOT_FINITE"'),
           (1, "- name: ShoalDiskShort fires\n", "- name: ShoalDisk fires\n"), (1, "- name: ShoalDiskShort does not fire\n", "- name: none\n"),
           (1, "alertname: ShoalDiskShort", "alertname: ShoalDiskHangs"), (1, "exp_alerts: []", "exp_alerts:\n          - exp_labels: {severity: warning}"),
           (1, "series: 'shoal_disk_short", "series: 'shoal_disk_bytes"), (1, "        exp_alerts:\n          - exp_labels: {severity: critical, shard: b/0}\n",
                                                                           "        exp_alerts: []\n"),
           (2, "shoal_job_logloss", "shoal_job_loss"), (2, "{{stage}}", "{{step}}"), (3, "**ShoalNoProgress.**", "**ShoalProgress.**"), (4, ":9466", ":9467"), (4, "job_name: shoal", "job_name: all")]


def main():
    texts = [(MONITORING / name).read_text(encoding="utf-8") for name in ("shoal.rules.yml", "shoal.rules.test.yml", "dashboard.json")]
    texts.append((ROOT / "deploy/manual/metrics.md").read_text(encoding="utf-8"))
    texts.append((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    faults = faults_of(*texts) + promtool_faults()
    for which, old, new in PLANTED:
        spoilt = list(texts)
        spoilt[which] = spoilt[which].replace(old, new, 1)
        if spoilt == texts or not faults_of(*spoilt):
            faults.append(f"control: {old} -> {new} is not found")
    print("\n".join(faults) or "rules, cases, scrape job, dashboard and manual fit the table of metrics")
    return 1 if faults else 0


sys.exit(main())
