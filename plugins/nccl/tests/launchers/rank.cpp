// One rank of a run that a launcher starts: trains over doubles of its GPU and of NCCL, beside the
// same training on threads, and writes how it ended.
// Run:    torchrun --no-python --nproc-per-node 3 plugins.nccl.launched_rank FOLDER [KILLED]
// Writes: FOLDER/RANK: "rank 1 of 3 by torchrun: the weights of threads", or the error. Rank KILLED
//         dies in step 4.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/nccl/launched_world.hpp>
#include <gx/nccl_testing/nccl.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/threads/threads.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

namespace {

using namespace gx;
using Computed = cuda_testing::HostComputed<reference::Device>;

int killed = -1;

struct Mortal : Computed {
    Mortal(cuda::DeviceContext& gpu, const Graph& graph, const DeviceOptions& o)
        : Computed(gpu, graph, o), rank(o.rank) {}
    void forward(Mode mode, View<ForwardReport> report) {
        if (mode == Mode::train && step++ == 4 && rank == killed) std::raise(SIGKILL);
        Computed::forward(mode, report);
    }
    int rank, step = 0;
};

std::string train(const coordination::Launch& launch) {
    const Trainer<testing_support::Net, Bucketed<MultiRing<2, fp16>, 64>, Warmup<Poly<2>>> trainer(
        {.batch = 3, .epochs = 2, .seed = 3});
    const Split data = testing_support::images();
    nccl::LaunchedWorld<Mortal> gpus({.launch = launch});
    const RunRecord record = trainer.train(gpus, data);
    ThreadWorld<reference::Device> threads({.placement = gpus.placement()});
    const bool same = trainer.train(threads, data).weights_hash == record.weights_hash;
    return "rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.ranks) + " by " +
           launch.launcher + (same ? ": the weights of threads" : ": other weights than threads");
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return 2;
    if (count > 2) killed = std::atoi(arguments[2]);
    std::signal(SIGTERM, SIG_IGN);  // launchers end the others, too: this one says what it saw
    cuda_testing::reset({.check_at_exit = false});
    nccl_testing::set_options({.processes = true});
    std::string text, name = "unknown";
    int status = 0;
    try {
        const coordination::Launch launch = coordination::launch_from_environment();
        name = std::to_string(launch.rank);
        text = train(launch);
        cuda_testing::expect_clean();
    } catch (const std::exception& e) {
        text = e.what();
        status = 1;
    }
    std::ofstream(std::string(arguments[1]) + "/" + name) << text;
    return status;
}
