// Error feedback and stochastic rounding.
#include <fuzz/lossy.hpp>
#include <fuzz/reducers.hpp>
#include <fuzz/trial.hpp>

#include <gx/reducer/bucketed.hpp>         // Bucketed
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered

namespace gx::sim::fuzz {

std::vector<FuzzedReducer> lossy_reducers() {
    using LateTop = DoubleBuffered<Bucketed<TopPercent<25>, 64>>;
    return {{"TopK, 10 %", trial<TopPercent<10>, tenth>},
            {"DoubleBuffered<Bucketed<TopK, 64>>, 25 %", trial<LateTop, quarter>},
            {"Quantized<8>", trial<Quantized<8>, eight_bits>},
            {"DoubleBuffered<Quantized<4>>", trial<DoubleBuffered<Quantized<4>>, four_bits>}};
}

}  // namespace gx::sim::fuzz
