// Sweep machines, their number and the size of buckets as one range: which of them trains an epoch
// of ImageNet within a minute, and at what price? ResNet-50 in mixed precision at a global batch of
// 2048, Ring<fp16>, each step simulated on every GPU.
// Run:     build/dev/examples/12_sweep
// Prints:  24 points, 8 within a minute; the cheapest of these:
//          1. 4 x p3.16xlarge, buckets of 25 MB: 0.63 min, 1.03 dollars an epoch
//          2. 4 x p3.16xlarge, buckets of  4 MB: 0.80 min, 1.30 dollars an epoch
//          3. 4 x p3.16xlarge, buckets of 51 MB: 0.91 min, 1.48 dollars an epoch
//          4. 8 x p3.16xlarge, buckets of 25 MB: 0.61 min, 1.98 dollars an epoch
//          5. 8 x p3.16xlarge, buckets of 51 MB: 0.70 min, 2.30 dollars an epoch
//          6. 8 x p3.16xlarge, buckets of  4 MB: 0.97 min, 3.18 dollars an epoch

#include <cstdint>  // bytes
#include <cstdio>   // printf
#include <string>   // names
#include <tuple>    // points of the sweep
#include <vector>   // what is left

#include <range/v3/action/sort.hpp>             // sort
#include <range/v3/algorithm/count_if.hpp>      // count_if
#include <range/v3/range/conversion.hpp>        // to
#include <range/v3/view/cartesian_product.hpp>  // cartesian_product
#include <range/v3/view/enumerate.hpp>          // enumerate
#include <range/v3/view/filter.hpp>             // filter
#include <range/v3/view/take.hpp>               // take
#include <range/v3/view/transform.hpp>          // transform

#include <gx/model/resnet.hpp>              // ResNet50
#include <gx/reducer/ring.hpp>              // Ring
#include <gx/sim/catalog/comm_stacks.hpp>   // nccl_2_5, tcp_aws
#include <gx/sim/catalog/find_machine.hpp>  // p3_16xlarge
#include <gx/sim/timing/step_time.hpp>      // step_time

namespace {

constexpr int global_batch = 2048;

struct Point {
    std::string machine;
    int machines;
    double megabytes;         // of a bucket on the wire
    double minutes, dollars;  // of an epoch
};

Point simulate(const gx::Graph& network, const gx::sim::MachineSpec& machine, int count,
               double megabytes) {
    const gx::sim::ClusterSpec cluster{
        .machine = machine, .machines = count, .profile = gx::sim::nccl_2_5 + gx::sim::tcp_aws};
    const gx::sim::StepTiming step =
        gx::sim::step_time<gx::Ring<gx::fp16>>(network, cluster,
                                               {.batch = global_batch / cluster.ranks(),
                                                .precision = gx::sim::Precision::mixed,
                                                .bucket_bytes = std::int64_t(1e6 * megabytes)});
    const double steps = 1'281'167.0 / global_batch;
    return {std::string(machine.name.view()), count, megabytes, steps * gx::seconds(step.step) / 60,
            steps * step.dollars.count};
}

}  // namespace

int main() {
    namespace view = ranges::views;
    const gx::Graph network = gx::graph<gx::ResNet50>();
    const std::vector machines{gx::sim::machine::p3_8xlarge(), gx::sim::machine::p3_16xlarge()};
    const std::vector counts{2, 4, 8, 16};
    const std::vector megabytes{4.0, 25.0, 51.2};  // the last is the whole gradient

    const auto simulated = [&](const auto& point) {
        const auto& [machine, count, bucket] = point;
        return simulate(network, machine, count, bucket);
    };
    const auto in_time = [](const Point& p) { return p.minutes <= 1; };
    const std::vector<Point> found = view::cartesian_product(machines, counts, megabytes) |
                                     view::transform(simulated) | ranges::to<std::vector> |
                                     ranges::actions::sort(ranges::less{}, &Point::dollars);

    std::printf("%zu points, %zu within a minute; the cheapest of these:\n", found.size(),
                std::size_t(ranges::count_if(found, in_time)));
    for (const auto& [place, p] : found | view::filter(in_time) | view::take(6) | view::enumerate)
        std::printf("%zu. %d x %s, buckets of %2.0f MB: %.2f min, %.2f dollars an epoch\n",
                    std::size_t(place + 1), p.machines, p.machine.c_str(), p.megabytes, p.minutes,
                    p.dollars);
}
