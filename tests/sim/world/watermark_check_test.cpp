#include <gx/sim/world/watermark_check.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // copy
#include <limits>     // NaN
#include <string>     // sentences
#include <vector>     // gradients

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/device.hpp>             // reference::Device
#include <gx/sim/world/device.hpp>             // sim::Device
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <sim/support/two_layers.hpp>          // two_layers

namespace {

using namespace testing_support;

constexpr std::size_t elements = 20 + 5 + 15 + 3;  // of two_layers()

std::string refusal(auto f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(WatermarkCheck, NamesLayerAndParameterOfAnEarlyReport) {
    const gx::Graph graph = two_layers();
    const gx::reference::Device device(graph, {.batch = 1});
    std::vector<float> gradients(elements, 0.0f);
    gx::sim::WatermarkCheck check;
    check.begin(gradients);
    gradients[40] = 1;
    check.reported(40);
    check.reported(25);  // 15 weights of 'second', before they are there
    gradients[30] = 1;
    check.reported(0);
    EXPECT_EQ(refusal([&] { check.expect_final(graph, device.slices()); }),
              "backward reported the gradients from element 25 on as ready, and then changed "
              "element 30, of 'second.weight' of layer 'second': a device calls ready(watermark) "
              "after the last write to any of them. Move the call behind that layer's backward.");
}
TEST(WatermarkCheck, ALateReportIsRight) {
    const gx::Graph graph = two_layers();
    std::vector<float> gradients(elements, std::numeric_limits<float>::quiet_NaN());
    gx::sim::WatermarkCheck check;
    for (int pass = 0; pass < 2; ++pass) {  // what the last pass reported is forgotten
        check.begin(gradients);
        std::fill(gradients.begin(), gradients.end(), static_cast<float>(pass));
        check.reported(elements);
        check.reported(3);
        check.reported(7);
        gradients[2] = 5;  // never reported, so never too early
        EXPECT_EQ(refusal([&] { check.expect_final(graph, {}); }), "");
    }
}

// ---- A property -----------------------------------------------------------------------
// Writes in a random order, reports at random times: the oracle counts writes behind a report.
RC_GTEST_PROP(WatermarkCheck, FindsExactlyTheWritesBehindAReport, ()) {
    const auto n = *rc::gen::inRange<std::size_t>(1, 20);
    std::vector<float> gradients(n, 0.0f);
    gx::sim::WatermarkCheck check;
    check.begin(gradients);
    std::size_t lowest = n;
    bool early = false;
    const int events = *rc::gen::inRange(0, 30);
    for (int e = 0; e < events; ++e) {
        const auto at = *rc::gen::inRange<std::size_t>(0, n);
        if (*rc::gen::inRange(0, 4) == 0) {
            check.reported(at);
            lowest = std::min(lowest, at);
        } else {
            gradients[at] += 1;
            early = early || at >= lowest;
        }
    }
    RC_ASSERT(refusal([&] { check.expect_final(two_layers(), {}); }).empty() == !early);
}

// ---- In the simulated device ----------------------------------------------------------
/// Reports everything before it has computed anything.
struct TooEarly : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        ready(0);
        Device::backward(scale, gradients, [](std::size_t) {});
    }
};
/// Reports each gradient together with those of the parameter before it.
struct OneTooEarly : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        Device::backward(scale, gradients, [&](std::size_t w) {
            std::size_t before = 0;
            for (const gx::ParameterSlice& s : slices())
                if (s.offset < w) before = s.offset;
            ready(before);
        });
    }
};
struct Late : gx::reference::Device {
    using Device::Device;
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        Device::backward(scale, gradients, [](std::size_t) {});
        ready(0);
    }
};

template <class Inner>
std::string trained_on() {
    return refusal([] {
        gx::sim::Cluster<Inner>(gx::sim::ethernet_10g(1)).run([](auto& rank) {
            const TwoImages data;
            auto device = rank.make_device(two_layers(), {.batch = 2});
            device->update(fill_weights);
            std::vector<float> gradients(device->parameters().size());
            (void)device->forward(data.batch(), gx::Mode::train);
            device->backward(1, gradients, [](std::size_t) {});
        });
    });
}
TEST(WatermarkCheck, ASimulatedDeviceReportsWhatItsInnerDeviceBreaks) {
    EXPECT_EQ(trained_on<gx::reference::Device>(), "");
    EXPECT_EQ(trained_on<Late>(), "");
    EXPECT_NE(trained_on<TooEarly>().find("from element 0 on as ready, and then changed element "
                                          "42, of 'second.bias' of layer 'second'"),
              std::string::npos)
        << trained_on<TooEarly>();
    EXPECT_NE(trained_on<OneTooEarly>().find("of 'first."), std::string::npos)
        << trained_on<OneTooEarly>();
}

}  // namespace
