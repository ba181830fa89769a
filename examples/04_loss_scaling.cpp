// Watch gradients underflow in fp16, and a loss scale save them: the same small gradients go
// around a ring of two ranks at four scales; overflow is seen by both ranks alike.
// Run:     build/dev/examples/04_loss_scaling
// Prints:  scale      mean of 1e-8   mean of 3e-6   mean of 0.25   verdict
//          1              0.00e+00       2.98e-06       2.50e-01   step
//          256            9.78e-09       3.00e-06       2.50e-01   step
//          65536          1.00e-08       3.00e-06       2.50e-01   step
//          16777216       1.00e-08       3.00e-06            inf   skip, on both ranks

#include <cstdio>  // printf
#include <vector>  // gradients

#include <gx/threads/threads.hpp>   // Threads
#include <gx/optimizer/finite.hpp>  // all_finite
#include <gx/reducer/ring.hpp>      // Ring

int main() {
    std::printf("scale      mean of 1e-8   mean of 3e-6   mean of 0.25   verdict\n");
    for (const float scale : {1.0f, 256.0f, 65536.0f, 16777216.0f}) {
        std::vector<float> mean[2];
        bool finite[2];
        gx::Threads<2> world;
        world.run([&](auto& rank) {
            const auto r = std::size_t(rank.rank());
            std::vector<float> bucket{1e-8f * scale, 3e-6f * scale, 0.25f * scale};
            gx::Ring<gx::fp16> ring;
            ring.reserve(gx::ReducePlan::whole(world.placement(), 3));
            (void)ring.all_reduce(rank.transport(), bucket);
            finite[r] = gx::all_finite(bucket);  // decided from reduced values: all ranks agree
            for (const float g : bucket) mean[r].push_back(g / scale);
        });
        std::printf("%-9.0f %13.2e %14.2e %14.2e   %s\n", double{scale}, double{mean[0][0]},
                    double{mean[0][1]}, double{mean[0][2]},
                    finite[0] && finite[1]     ? "step"
                    : !finite[0] && !finite[1] ? "skip, on both ranks"
                                               : "THE RANKS DISAGREE");
    }
}
