#include "model/forward/torch/project.h"

#include <cmath>
#include <limits>
#include <vector>

#include "ATen/ATen.h"
#include "ATen/Parallel.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using at::Tensor;

std::vector<VectorKernel> OurKernels() {
  switch (BestVectorKernel()) {
    case VectorKernel::kAvx512:
      return {VectorKernel::kAvx2, VectorKernel::kAvx512};
    case VectorKernel::kAvx2:
      return {VectorKernel::kAvx2};
    default:
      return {};
  }
}

struct Size {
  int64_t rows, cols;
};
// Around the blocks of rows and columns.
constexpr Size kSizes[] = {{1, 1},  {3, 2},  {4, 31}, {5, 32},     {6, 33},
                           {7, 63}, {8, 64}, {9, 97}, {130, 2048}, {1001, 321}};

// The product in float64, and what rounding once to bfloat16 after a sum in float32 may change of it.
TEST(Project, OneVectorIsAsExactAsOneRoundingAllows) {
  if (OurKernels().empty()) GTEST_SKIP() << "this CPU has neither AVX2 nor AVX-512";
  at::manual_seed(1);
  for (const Size& size : kSizes) {
    const Tensor x = at::randn({1, size.cols}).to(at::kBFloat16);
    const Tensor weight = at::randn({size.rows, size.cols}).to(at::kBFloat16);
    const Tensor wide_x = x.to(at::kDouble), wide_weight = weight.to(at::kDouble);
    const Tensor exact = at::linear(wide_x, wide_weight);
    const Tensor bound = exact.abs() / 256 + at::linear(wide_x.abs(), wide_weight.abs()) * 1e-6;
    for (VectorKernel kernel : OurKernels()) {
      const Tensor product = Project(x, weight, kernel);
      ASSERT_EQ(product.sizes(), exact.sizes());
      ASSERT_EQ(product.scalar_type(), at::kBFloat16);
      EXPECT_TRUE(((product.to(at::kDouble) - exact).abs() <= bound).all().item<bool>())
          << size.rows << " x " << size.cols << ", kernel " << static_cast<int>(kernel);
    }
  }
}

TEST(Project, SmallWholeNumbersAreExactAndInfinityStaysInItsRow) {
  at::manual_seed(2);
  const Tensor x = at::randint(-3, 4, {1, 77}).to(at::kBFloat16);
  Tensor weight = at::randint(0, 2, {10, 77}).to(at::kBFloat16);
  const Tensor exact = at::linear(x.to(at::kFloat), weight.to(at::kFloat)).to(at::kBFloat16);
  for (VectorKernel kernel : OurKernels()) EXPECT_TRUE(at::equal(Project(x, weight, kernel), exact));
  weight[9][76] = std::numeric_limits<float>::infinity();
  const Tensor ones = at::ones_like(x);
  for (VectorKernel kernel : OurKernels()) {
    const Tensor product = Project(ones, weight, kernel)[0];
    EXPECT_TRUE(std::isinf(product[9].item<float>()));
    EXPECT_TRUE(product.slice(0, 0, 9).isfinite().all().item<bool>());
  }
}

TEST(Project, ThreadsDoNotChangeABit) {  // of a matrix that is large enough for three
  at::manual_seed(3);
  const Tensor x = at::randn({1, 515}).to(at::kBFloat16), weight = at::randn({8195, 515}).to(at::kBFloat16);
  const int threads = at::get_num_threads();
  for (VectorKernel kernel : OurKernels()) {
    at::set_num_threads(1);
    const Tensor one = Project(x, weight, kernel);
    at::set_num_threads(3);
    EXPECT_TRUE(at::equal(Project(x, weight, kernel), one));
  }
  at::set_num_threads(threads);
}

TEST(Project, EverythingElseIsLibtorchs) {
  at::manual_seed(4);
  const Tensor weight = at::randn({12, 40});
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = at::randn({type == at::kFloat ? 1 : 5, 40}).to(type);
    EXPECT_TRUE(at::equal(Project(x, weight.to(type)), at::linear(x, weight.to(type))));
  }
}

}  // namespace
}  // namespace qgpu
