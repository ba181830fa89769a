// How fast reducers average a gradient over GPUs, beside ncclAllReduce in the same run.
// Run:     gx_nccl_all_reduce_speed [--gpus N] [--json FILE]
// Prints:  a line for each reducer and size; what favours NCCL: its time has no encode and decode,
//          which the reducers' has.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include <gx/cuda/error.hpp>
#include <gx/io/atomic_file.hpp>

#include "../../../sims/support/command_line.hpp"
#include "all_reduce_speed.hpp"

namespace {

using namespace gx;

std::string gpu_name() {
    cudaDeviceProp properties{};
    cuda::expect(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties", 0);
    return properties.name;
}

void measure(int gpus, const std::string& json) {
    expect_outputs({{"--json", json}});
    if (gpus == 0) gpus = cuda::device_count();
    std::vector<std::int64_t> sizes;
    for (std::int64_t elements = 1 << 14; elements <= 1 << 26; elements *= 4)
        sizes.push_back(elements);
    const std::string name = gpu_name();
    fmt::print("{} x {}\n{:28} {:>10} {:>12} {:>10} {:>16}\n", gpus, name, "reducer", "MB sent",
               "us", "GB/s", "x ncclAllReduce");
    const char* const note =
        gpus > 1 ? "" : "one GPU sends nothing: these are times of launches, encode and decode";
    if (*note != '\0') fmt::print("{}\n", note);
    nlohmann::json cases = nlohmann::json::array();
    for (const nccl::AllReduceSpeed& row :
         nccl::all_reduce_speeds_of<nccl::AllReduce<fp32>, nccl::AllReduce<fp16>, Ring<fp32>,
                                    Ring<fp16>, MultiRing<4, fp16>, MultiRing<4, bf16>>(
             {.placement = {1, gpus}}, sizes, {})) {
        fmt::print("{:28} {:10.3f} {:12.1f} {:10.2f} {:16.2f}\n", row.reducer,
                   1e-6 * double(row.wire_bytes), 1e6 * row.seconds,
                   1e-9 * row.bus_bytes_per_second(), row.times_native());
        cases.push_back({{"reducer", row.reducer},
                         {"elements", row.elements},
                         {"wire_bytes", row.wire_bytes},
                         {"seconds", row.seconds},
                         {"nccl_all_reduce_seconds", row.native_seconds},
                         {"times_nccl_all_reduce", row.times_native()},
                         {"bus_bytes_per_second", row.bus_bytes_per_second()}});
    }
    if (json.empty()) return;
    write_file(
        json,
        nlohmann::json{{"gpu", name}, {"gpus", gpus}, {"note", note}, {"cases", cases}}.dump(2) +
            "\n");
}

}  // namespace

int main(int argc, char** argv) {
    int gpus = 0;
    std::string json;
    CLI::App app("How fast reducers average a gradient over GPUs, beside ncclAllReduce.",
                 "gx_nccl_all_reduce_speed");
    app.add_option("--gpus", gpus, "how many (default: all that the process sees)")
        ->check(gx::count_in(1, 64));
    app.add_option("--json", json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(gpus, json); });
}
