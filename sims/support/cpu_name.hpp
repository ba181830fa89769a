// cpu_name: the name of this processor, which every figure is printed with.
#pragma once

#include <algorithm>  // min
#include <fstream>
#include <istream>
#include <string>

namespace gx {

/// As in "AMD EPYC 9R14". A virtual machine may hide the number, as in "AMD EPYC": then family and
/// model follow, "AMD EPYC, family 25, model 17". "unknown" where `cpuinfo` has no name.
/// `cpuinfo`: text in the format of Linux's /proc/cpuinfo.
[[nodiscard]] inline std::string cpu_name(std::istream& cpuinfo) {
    std::string name, family, model;
    for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {  // the first core's
        const auto colon = line.find(':');
        if (colon == line.npos || colon == 0) continue;
        const std::string field = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
        const std::string value = line.substr(std::min(colon + 2, line.size()));
        if (field == "model name") name = value;
        if (field == "cpu family") family = value;
        if (field == "model") model = value;
    }
    if (name.empty()) return "unknown";
    const bool numbered = name.find_first_of("0123456789") != name.npos;
    if (numbered || family.empty() || model.empty()) return name;
    return name + ", family " + family + ", model " + model;
}

[[nodiscard]] inline std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    return cpu_name(in);
}

}  // namespace gx
