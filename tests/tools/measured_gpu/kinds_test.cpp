#include <tools/measured_gpu/kinds.hpp>  // first, so the header is seen to stand alone

#include <string>  // tables

#include <gtest/gtest.h>

#include <gx/sim/io/machine_json.hpp>  // read_machine
#include <support/files.hpp>           // holds
#include <support/measured_h100.hpp>   // measured_h100, with

namespace {

using gx::sim::MeasuredGpu;
using gx::sim::read_measured_gpu;
using gx::tools::gpu_field;
using gx::tools::kind_rows;
using gx::tools::kind_table;
using testing_support::holds;
using testing_support::measured_h100;
using testing_support::with;

// ---- A case worked by hand ----------------------------------------------------------
TEST(KindRow, PutsSimulatedKernelsBesideTheMeasured) {
    const MeasuredGpu m = read_measured_gpu(measured_h100, "f");
    const auto rows = kind_rows(m, m.data_sheet);
    ASSERT_EQ(rows.size(), 10u);
    EXPECT_EQ(rows[0].name, "products, forward");
    EXPECT_EQ(rows[0].simulated.kernels, 54) << "53 convolutions and a linear layer";
    EXPECT_EQ(rows[0].measured.kernels, 54);
    EXPECT_EQ(rows[1].simulated.kernels, 53) << "the image needs no gradient";
    EXPECT_EQ(rows[3].name, "batch norm, forward");
    // 10.6 M elements an image in 53 batch norms, and 3.5 M of the 16 addends, in fp16, on 256
    // images: 3 maps and one, 17.0 and 2.8 GB. 53 launches of 6 us, and 0.9 of 3350 GB/s.
    EXPECT_NEAR(rows[3].simulated.gb, 19.897, 0.001);
    EXPECT_NEAR(rows[3].simulated.ms, 53 * 0.006 + 19.897 / (0.9 * 3.350), 0.001);
    EXPECT_EQ(rows[6].name, "input");
    EXPECT_EQ(rows[6].simulated.kernels, 0);
    EXPECT_EQ(rows[6].measured.kernels, 1);
}

TEST(KindRow, ProductsThatAreNotToldApartAreOneRow) {
    MeasuredGpu m = read_measured_gpu(measured_h100, "f");
    m.kinds = {{"products", 216, 16, 30}, {"quantisation", 2, 1, 0}};
    const auto rows = kind_rows(m, m.data_sheet);
    ASSERT_EQ(rows.size(), 7u) << "and five kinds that are simulated alone";
    EXPECT_EQ(rows[0].simulated.kernels, 54 + 53 + 54);
    EXPECT_EQ(rows[1].simulated.kernels, 0);
    EXPECT_EQ(rows[2].name, "batch norm, forward");
    EXPECT_EQ(rows[2].measured.kernels, 0);
}

// ---- The text -----------------------------------------------------------------------
TEST(KindTable, ShowsRatiosRatesAndTheStep) {
    const MeasuredGpu m = read_measured_gpu(measured_h100, "f");
    const std::string table = kind_table(m, m.data_sheet);
    EXPECT_TRUE(holds(table,
                      "batch norm, backward          12.324    14.106    0.87      53   159   "
                      " 36.198  33.468    2937  2373\n"))
        << table;
    EXPECT_TRUE(
        holds(table, "input                              -     0.149       -       -     1"));
    EXPECT_TRUE(holds(table, "products, forward              5.849     5.685    1.03"));
    // 256 images / 6650 images/s = 38.496 ms.
    EXPECT_TRUE(holds(table,
                      "simulated 37.442 ms, 6837 images/s; trained in 38.496 ms, 6650 "
                      "images/s; ratio of times 0.973\n"));
    EXPECT_FALSE(holds(table, " \n")) << "no line ends in a blank";
    MeasuredGpu untrained = m;
    untrained.images_per_second = 0;
    EXPECT_TRUE(holds(kind_table(untrained, m.data_sheet), "the file holds no training of it\n"));
}

TEST(GpuField, IsReadAsPartOfAMachineFile) {
    const MeasuredGpu m = read_measured_gpu(measured_h100, "f");
    const gx::sim::GpuSpec fitted = measured_gpu(m, "f");
    const std::string machine = R"({"name": "ours", "gpus": 1, "host_gb_per_s": 50,
        "nic_gbps": 400, "nics": 1, "host_memory_gb": 512, )" +
                                gpu_field(m, fitted) + "}";
    const gx::sim::GpuSpec read = gx::sim::read_machine(machine, "ours.json").gpu;
    EXPECT_EQ(read.name, fitted.name);
    EXPECT_NEAR(read.efficiency_mixed.convolution, fitted.efficiency_mixed.convolution, 1e-4);
    EXPECT_NEAR(read.efficiency_mixed.linear, fitted.efficiency_mixed.linear, 1e-4);
    EXPECT_NEAR(read.efficiency_mixed.memory, fitted.efficiency_mixed.memory, 1e-4);
}

}  // namespace
