// find_or_read_machine("p3.16xlarge" or "ours.json"): a known machine, or one of a file.
#pragma once

#include <filesystem>    // extensions
#include <fstream>       // files
#include <iterator>      // whole files
#include <string>        // texts
#include <string_view>   // labels
#include <system_error>  // error_code

#include <gx/sim/find_machine.hpp>  // find_machine
#include <gx/sim/machine_json.hpp>  // read_machine
#include <gx/sim/nccl_xml.hpp>      // machine_from_nccl_xml

namespace gx::sim {

/// The machine of a file that ends in `.json`, as read_machine describes it, or in `.xml`, as NCCL
/// dumps it (its name is then that of the file); of anything else, the known one of this name.
/// Errors: gx::Error with the file and what is wrong in it, or the nearest known name.
[[nodiscard]] inline MachineSpec find_or_read_machine(const std::string& name_or_file) {
    const std::filesystem::path path(name_or_file);
    const bool json = path.extension() == ".json", xml = path.extension() == ".xml";
    if (!json && !xml) return find_machine(name_or_file);
    std::error_code ignored;
    std::ifstream in(path, std::ios::binary);
    if (!in || std::filesystem::is_directory(path, ignored))
        throw Error(name_or_file + ": cannot be read: give a file of a machine that exists");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (json) return read_machine(text, name_or_file);
    const std::string stem = path.stem().string();
    try {
        return machine_from_nccl_xml(text, std::string_view(stem).substr(0, 63));
    } catch (const Error& e) {
        throw Error(name_or_file + ": " + e.what());
    }
}

}  // namespace gx::sim
