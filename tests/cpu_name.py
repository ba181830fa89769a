"""The name of this processor, as sims/support/cpu_name.hpp has it."""
import re


def cpu_name(cpuinfo=None):
    """As in "AMD EPYC 9R14"; where the name has no number, "AMD EPYC, family 25, model 17"."""
    if cpuinfo is None:
        with open("/proc/cpuinfo") as file:
            cpuinfo = file.read()
    fields = {}
    for name, value in re.findall(r"^([^:\n]*?)[ \t]*: (.*)$", cpuinfo.split("\n\n")[0], re.M):
        fields[name] = value
    name = fields.get("model name", "unknown")
    if re.search(r"\d", name) or not {"cpu family", "model"} <= fields.keys():
        return name
    return f"{name}, family {fields['cpu family']}, model {fields['model']}"
