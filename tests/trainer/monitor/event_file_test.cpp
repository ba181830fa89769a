#include <gx/trainer/monitor/event_file.hpp>

#include <limits>  // NaN
#include <string>  // bytes

#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, read_text

namespace {

using namespace testing_support;

/// Printed by make_events.py, which writes these events by TensorBoard 2.21's own classes.
constexpr const char* by_tensorboard =
    "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b35311010000000"
    "0000000095fbfe180900005040fc54d94110ac023a0208010333a0473500000000000000d6c55de609000080"
    "40fc54d9412a2a0a100a09737465702f7261746515cdcccc3d0a160a0f737465702f6c6f73735f7363616c65"
    "1500000000b584ad42ff000000000000005311e2a6090000c040fc54d941108080808080202aec010a170a10"
    "65706f63682f747261696e5f6c6f7373150000c07f0ad0010ac8017474747474747474747474747474747474"
    "7474747474747474747474747474747474747474747474747474747474747474747474747474747474747474"
    "7474747474747474747474747474747474747474747474747474747474747474747474747474747474747474"
    "7474747474747474747474747474747474747474747474747474747474747474747474747474747474747474"
    "7474747474747474747474747474747474747474747474747474747474747474747474747474747474747474"
    "7474747474747415caf249f1d8a3e7f4";

std::string hexadecimal(const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
        constexpr const char* digits = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(c);
        out += {digits[byte / 16], digits[byte % 16]};
    }
    return out;
}

TEST(EventFile, HasTheBytesOfTensorBoardsOwnWriter) {
    const Folder folder;
    gx::EventFile file(folder / "events", 1700000000.5);
    file.restart(300, 1700000001.25);
    file.begin(0, 1700000002.0);
    file.add("step/rate", 0.1);
    file.add("step/loss_scale", 0);
    file.end();
    file.begin(std::int64_t{1} << 40, 1700000003.0);
    file.add("epoch/train_loss", std::numeric_limits<double>::quiet_NaN());
    file.add(std::string(200, 't'), -1e30);
    file.end();
    EXPECT_EQ(hexadecimal(read_text(file.path())), by_tensorboard);
}
TEST(EventFile, NamesAFileThatCannotBeWritten) {
    const Folder folder;
    EXPECT_TRUE(holds(error_of([&] { gx::EventFile(folder / "none/events", 0); }),
                      "none/events' cannot be opened"));
}

}  // namespace
