// gx's reducers between the processes of an MPI job: a rank of a job of ./gx bench reduce.
// Run:     mpirun -n 2 gx_reduce_rank_openmpi, with lines "REDUCER ELEMENTS REPEATS" on stdin
// Prints:  for each line the microseconds of each repeat on rank 0, on one line, and the KiB of the
//          pages of its buffer
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <gx/halving_doubling/reducer.hpp>
#include <gx/recursive_doubling/reducer.hpp>
#include <gx/mpi/world.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/shared_memory/reducer.hpp>

#include "pages.hpp"
#include "turns.hpp"

namespace {

using World = gx::mpi::World<>;

template <class R>
void measure(World::Rank& rank, const gx::bench::Turn& turn) {
    const auto elements = static_cast<std::int64_t>(turn.elements);
    auto& link = rank.transport();
    gx::Buffer<float> buffer(gx::gradient_buffers<R>(link), elements, "gradient");
    const auto values = buffer.view();
    R reducer;
    auto plan = gx::ReducePlan::whole(link.placement(), elements);
    plan.memory = gx::message_buffers(link);
    reducer.reserve(plan);
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(turn.repeats));
    for (int i = -2; i < turn.repeats; ++i) {
        std::ranges::fill(values, 1.0f);
        gx::bench::meet();
        const auto from = std::chrono::steady_clock::now();
        const bool complete = reducer.all_reduce(link, gx::Bucket(values)).complete();
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - from;
        if (i >= 0) times.push_back(took.count());
        if (!complete || values.front() != 1.0f || values.back() != 1.0f) std::abort();
    }
    if (rank.rank() == 0)
        gx::bench::print(times, gx::bench::pages_kib(values.data(), values.size_bytes()));
}

}  // namespace

int main() {
    const std::map<std::string, void (*)(World::Rank&, const gx::bench::Turn&)> reducers{
        {"SharedMemory<fp32>", &measure<gx::SharedMemory<>>},
        {"SharedMemory<bf16>", &measure<gx::SharedMemory<gx::bf16>>},
        {"Ring<fp32>", &measure<gx::Ring<>>},
        {"HalvingDoubling<fp32>", &measure<gx::HalvingDoubling<>>},
        {"RecursiveDoubling<fp32>", &measure<gx::RecursiveDoubling<>>}};
    World world({.announce = false});
    world.run([&](World::Rank& rank) {
        for (gx::bench::Turn turn; gx::bench::next_turn(turn, rank.rank(), rank.ranks());)
            reducers.at(turn.what)(rank, turn);
    });
}
